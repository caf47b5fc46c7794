"""Requests and answers as pydantic models; the OpenAPI document is made from them."""

import inspect
import re
from dataclasses import is_dataclass
from functools import cache, reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from aftereffect._core import MAX_SEED
from aftereffect.inference import MAX_GUARDRAILS, Results
from aftereffect.lag import LagEstimate
from aftereffect.live import (
    DEFAULT_POLICY,
    DEFAULT_UNIT_POLICY,
    MAX_ARMS,
    MAX_KEY_LENGTH,
    MAX_LIVE_HISTORY,
    MAX_LIVE_SLOTS,
    MAX_NAME_LENGTH,
    MAX_UNIT_LENGTH,
    MAX_UNITS,
    Decision,
    SlotRecord,
    Status,
    TotalRecord,
    Verification,
)
from aftereffect.policies import MAX_FLOORS
from aftereffect.rewards import MAX_COVARIATES, SlotName
from aftereffect.service._timeline import Piece

#: Characters of a policy's spec string.
_MAX_POLICY = 1_000
#: Totals in one request: they fit into a body, and other writers do not wait long for them.
MAX_TOTALS = 10_000


Name = Annotated[
    str,
    Field(
        pattern=rf"^[A-Za-z0-9._-]{{1,{MAX_NAME_LENGTH}}}$", description="The experiment's name."
    ),
]
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+([+-][0-9:]+|Z)?)?$"
_MAX_TIME = 40
Time = Annotated[
    str,
    Field(
        pattern=_TIME,
        max_length=_MAX_TIME,
        description="A time in ISO 8601, in the time zone of the experiment if it has no offset.",
        examples=["2026-03-02T14:00"],
    ),
]


def check_slot(given: object) -> object:
    """Refuse what is neither the number of a slot nor a time."""
    if isinstance(given, str) and len(given) <= _MAX_TIME and re.fullmatch(_TIME, given):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < MAX_LIVE_SLOTS:
        return given
    raise ValueError("a slot is a number from 0 on, such as 17, or a time: 2026-03-02T14:00")


def read_slot(given: str) -> object:
    """Read the slot in a path."""
    return check_slot(int(given) if re.fullmatch(r"0|[1-9][0-9]{0,15}", given) else given)


_SLOT_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "exclusiveMaximum": MAX_LIVE_SLOTS},
            {"type": "string", "pattern": _TIME, "maxLength": _MAX_TIME},
        ],
        "description": "The number of a slot; the first is 0. Or the time at which it begins.",
    }
)
Slot = Annotated[int | str, BeforeValidator(check_slot), _SLOT_SCHEMA]
SlotInPath = Annotated[int | str, BeforeValidator(read_slot), _SLOT_SCHEMA]
_AnyKey = Annotated[
    str, Field(min_length=1, max_length=MAX_KEY_LENGTH, pattern=r"^[!-~]([ -~]*[!-~])?$")
]
Key = Annotated[
    _AnyKey,
    Field(
        description="Chosen by the client for one slot. The same key always gives the same slot."
    ),
]
BatchKey = Annotated[
    _AnyKey,
    Field(description="Chosen by the client for one batch of totals, which is then recorded once."),
]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=MAX_FLOORS)]


class Strict(BaseModel):
    """Takes the fields it declares, in their types, and nothing else: "1" is not a number."""

    model_config = ConfigDict(strict=True, extra="forbid")


Covariates = Annotated[
    dict[str, Finite | None],
    Field(
        max_length=MAX_COVARIATES,
        description="Numbers that come with the slot, by the names of the experiment's covariates; "
        "null for one that is not known. Those that are left out stay as they are.",
        examples=[{"temperature": 3.5}],
    ),
]
Guardrails = Annotated[
    dict[str, Finite | None],
    Field(
        max_length=MAX_GUARDRAILS,
        description="The numbers of the guardrails in the slot, by name; null for one that is not "
        "known. They may come later: tell the same total again, with them.",
        examples=[{"complaints": 3}],
    ),
]


class PastTotal(Strict):
    """A total from before the experiment."""

    time: Time
    total: Annotated[Finite | None, Field(description="The total; null if it is missing.")]
    covariates: Covariates = {}


class PlannedCourse(Strict):
    """What a plan promised for one of its designs, as `Plan.promise_courses` gives it."""

    design: Annotated[str, Field(min_length=1, max_length=_MAX_POLICY)]
    slot: SlotName
    arms: Annotated[int, Field(ge=2, le=MAX_ARMS)]
    slots: Annotated[int, Field(ge=1, le=MAX_LIVE_SLOTS)]
    loss: Finite
    loss_low: Finite
    loss_high: Finite
    end: Annotated[int, Field(ge=0, le=MAX_LIVE_SLOTS)] | None
    end_low: Annotated[int, Field(ge=0, le=MAX_LIVE_SLOTS)] | None
    end_high: Annotated[int, Field(ge=0, le=MAX_LIVE_SLOTS)] | None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    version: Annotated[str, Field(min_length=1, max_length=40)]
    digest: Annotated[str, Field(min_length=1, max_length=40)]


class NewExperiment(Strict):
    """The settings of an experiment; they cannot be changed later."""

    name: Name
    arms: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]],
        Field(
            min_length=2,
            max_length=MAX_ARMS,
            description="The arms to choose from, all different.",
            examples=[["A", "B", "C"]],
        ),
    ]
    policy: Annotated[
        str | None,
        Field(
            max_length=_MAX_POLICY,
            description="The spec string of a policy. By default "
            f"{DEFAULT_POLICY}, and with several units {DEFAULT_UNIT_POLICY}.",
            examples=[DEFAULT_POLICY, "ars-ucb(alpha=1)"],
        ),
    ] = None
    units: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]],
        Field(
            max_length=MAX_UNITS,
            description="The names of units, such as stores: each plays an arm and has a total of "
            "its own in every slot. With one or none, totals and decisions name no unit.",
            examples=[["north", "south"]],
        ),
    ] = []
    reward_range: Annotated[
        list[Finite] | None,
        Field(
            min_length=2,
            max_length=2,
            description="The smallest and the largest reward of one pull, summed over all slots in "
            "which it arrives. The default policy does not need it, most others do.",
            examples=[[0, 200]],
        ),
    ] = None
    slot: Annotated[
        SlotName | None,
        Field(description="The length of a slot. With it, slots have times."),
    ] = None
    start: Annotated[
        Time | None,
        Field(
            description="When slot 0 begins. By default, it follows the last slot of the history; "
            "without a history, it is the next full slot."
        ),
    ] = None
    timezone: Annotated[
        str | None,
        Field(
            max_length=MAX_NAME_LENGTH,
            description="The time zone of times without an offset. The default is UTC.",
            examples=["Europe/Berlin"],
        ),
    ] = None
    history: Annotated[
        dict[str, list[PastTotal] | list[Finite | None]]
        | list[PastTotal]
        | list[Finite | None]
        | None,
        Field(
            max_length=MAX_LIVE_HISTORY,
            description="The totals from before the experiment, while the control was played. "
            "Without times, the last one lies directly before slot 0. With several units, by unit.",
        ),
    ] = None
    control: Annotated[
        str | None,
        Field(
            max_length=MAX_NAME_LENGTH,
            description="The arm that was played before the experiment. By default, the first.",
        ),
    ] = None
    control_share: Annotated[
        Share | None,
        Field(
            description="The least share of rounds that the control keeps, whatever the policy "
            "decides. The control must be named.",
            examples=[0.1],
        ),
    ] = None
    floors: Annotated[
        dict[str, Share],
        Field(
            max_length=MAX_ARMS,
            description="The least share of rounds of other arms, by name; at most 0.9 in all, "
            "with the control.",
            examples=[{"B": 0.05}],
        ),
    ] = {}
    covariates: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]],
        Field(
            max_length=MAX_COVARIATES,
            description="The names of numbers that come with each slot. Only policies that look at "
            "every slot take them.",
            examples=[["temperature", "rain"]],
        ),
    ] = []
    unit: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=MAX_UNIT_LENGTH,
            description="The unit of the totals. Tables and charts show it.",
            examples=["EUR"],
        ),
    ] = None
    stop_when_loss_below: Annotated[
        Finite | None,
        Field(
            gt=0,
            description="A rule to stop: the results say stop when shipping the leading arm is "
            "expected to cost less than this number per slot, in the unit of the totals.",
            examples=[5],
        ),
    ] = None
    guardrails: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=_MAX_POLICY)]],
        Field(
            max_length=MAX_GUARDRAILS,
            description="Further totals of each slot, in which arms may do harm, as spec strings. "
            "With `stops=true`, an arm that shows more harm than is tolerated is stopped.",
            examples=[["guardrail(complaints, harm=more, tolerated=5, stops=true)"]],
        ),
    ] = []
    plan: Annotated[
        list[PlannedCourse] | None,
        Field(
            min_length=1,
            max_length=100,
            description="What the plan that the experiment comes from promised, by design: the "
            "settings keep that of the policy. The status and the results compare.",
        ),
    ] = None
    final_after: Annotated[
        str | None,
        Field(
            pattern=r"^[1-9][0-9]{0,5}(min|h|d|w)$",
            description="How long after the end of its slot a total may still change. Until then "
            "it may be told again with another number, without `revise`. Slots must have times.",
            examples=["72h"],
        ),
    ] = None
    max_total: Annotated[
        Finite | None,
        Field(description="Totals above this are refused: they are probably typing errors."),
    ] = None
    horizon: Annotated[
        int | None,
        Field(
            ge=2,
            le=MAX_LIVE_SLOTS,
            description="The number of slots that the experiment will last; some policies need it.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_SEED,
            description="The seed of a randomised policy. By default, a seed is drawn.",
        ),
    ] = None


Revise = Annotated[
    bool,
    Field(
        description="Replace what is recorded, however old it is. Decisions that were made stand, "
        "and later ones use what is known then."
    ),
]
Total = Annotated[
    Finite,
    Field(
        description="Everything that was observed in the slot, whichever arms it came from.",
        examples=[37],
    ),
]
Arm = Annotated[
    str | None,
    Field(
        max_length=MAX_NAME_LENGTH,
        description="The arm that was really pulled, if it is not the one that was decided.",
    ),
]
Unit = Annotated[
    str | None,
    Field(
        max_length=MAX_NAME_LENGTH,
        description="The unit that the total is of, if the experiment has several.",
        examples=["north"],
    ),
]
Confirm = Annotated[
    bool, Field(description="Record a total even if it is far from all earlier totals.")
]
Missing = Annotated[
    Literal[True], Field(description="The total of the slot is lost. The only value is true.")
]


class NewTotal(Strict):
    """The total of a slot."""

    total: Total
    unit: Unit = None
    arm: Arm = None
    covariates: Covariates = {}
    guardrails: Guardrails = {}
    revise: Revise = False
    confirm: Confirm = False


class NewMissing(Strict):
    """A slot whose total is lost."""

    missing: Missing
    unit: Unit = None
    covariates: Covariates = {}
    guardrails: Guardrails = {}
    revise: Revise = False


class ListedTotal(Strict):
    """The total of one slot, in a list of several."""

    slot: Slot
    total: Total
    unit: Unit = None
    arm: Arm = None
    covariates: Covariates = {}
    guardrails: Guardrails = {}


class ListedMissing(Strict):
    """A slot whose total is lost, in a list of several."""

    slot: Slot
    missing: Missing
    unit: Unit = None
    covariates: Covariates = {}
    guardrails: Guardrails = {}


class NewTotals(Strict):
    """The totals of several slots: all of them are recorded, or none."""

    totals: Annotated[list[ListedTotal | ListedMissing], Field(max_length=MAX_TOTALS)]
    revise: Revise = False
    confirm: Confirm = False


ArmNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]],
    Field(max_length=MAX_ARMS),
]


class ArmChanges(Strict):
    """Arms that come and go, from the next slot on: all of these changes are made, or none."""

    add: Annotated[
        ArmNames, Field(description="New arms. No name is used twice.", examples=[["D"]])
    ] = []
    pause: Annotated[
        ArmNames, Field(description="Arms that are not played until they are resumed.")
    ] = []
    resume: Annotated[ArmNames, Field(description="Arms that are paused.")] = []
    retire: Annotated[ArmNames, Field(description="Arms that are never played again.")] = []


class NewGap(Strict):
    """Slots for which nothing was decided."""

    first: Annotated[
        Slot, Field(description="The first slot of the gap: the next slot of the experiment.")
    ]
    last: Annotated[Slot, Field(description="The last slot of the gap.")]


def answer_model(name: str, doc: str, /, **fields: Any) -> Any:
    """A model of an answer with these fields."""
    return create_model(
        name, __doc__=doc, **cast(Any, {field: (kind, ...) for field, kind in fields.items()})
    )


@cache
def model_of(record: type, /, *, float_type: Any = float, **further: Any) -> Any:
    """The model of a record of the library, field by field, and of fields that JSON has more.

    `float_type` is the type of numbers; ``float | None`` where JSON has None for infinity or NaN.
    """
    fields = {
        name: _json_type(hint, float_type)
        for name, hint in get_type_hints(record).items()
        if not name.startswith("_")
    }
    doc = re.split(r"\n+(?=Examples\n-|>>>)", inspect.getdoc(record) or "")[0]
    return answer_model(f"{record.__name__}Answer", doc, **fields | further)


def _json_type(hint: Any, float_type: Any) -> Any:
    """The type that a field has in JSON: lists for tuples, models for records."""
    if hint is float:
        return float_type
    if get_origin(hint) is tuple:
        return GenericAlias(list, (_json_type(get_args(hint)[0], float),))
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (_json_type(each, float_type) for each in get_args(hint)))
    if isinstance(hint, type) and (hasattr(hint, "_fields") or is_dataclass(hint)):
        return model_of(hint, float_type=float_type)
    return hint


DecisionAnswer = model_of(Decision)
TotalAnswer = model_of(TotalRecord)
TotalsAnswer = answer_model(
    "TotalsAnswer",
    "What was recorded for each slot, in the order of the request.",
    totals=GenericAlias(list, (TotalAnswer,)),
)
StatusAnswer = model_of(Status, planned=list[str])
VerificationAnswer = model_of(Verification, whole=bool)
ExperimentsAnswer = answer_model(
    "ExperimentsAnswer", "All experiments, in the order of their creation.", experiments=list[str]
)
TableAnswer = answer_model("TableAnswer", "A table of texts.", title=str, rows=list[list[str]])
PlanAnswer = answer_model(
    "PlanAnswer",
    "A saved plan: what to do, the history, and the designs in tables; first rows have titles.",
    digest=str,
    sentences=list[str],
    command=str | None,
    history=list[str],
    tables=GenericAlias(list, (TableAnswer,)),
)
PlansAnswer = answer_model(
    "PlansAnswer", "All saved plans.", plans=GenericAlias(list, (PlanAnswer,))
)
DeletionAnswer = answer_model("DeletionAnswer", "The experiment was deleted.", deleted=str)
HistoryAnswer = answer_model(
    "HistoryAnswer",
    "Some slots of the history. To get the slots after them, send `last` as the query `after`.",
    slots=GenericAlias(list, (model_of(SlotRecord),)),
    last=int,
)
TimelineAnswer = answer_model(
    "TimelineAnswer",
    "The history from the first slot to now, in pieces of `width` slots.",
    slots=int,
    width=int,
    pieces=GenericAlias(list, (model_of(Piece),)),
)
LagAnswer = model_of(LagEstimate, float_type=float | None)
ResultsAnswer = model_of(Results, stops=bool | None, sentences=list[str], planned=list[str])
HealthAnswer = answer_model(
    "HealthAnswer",
    "The service answers, and its storage can be read and written.",
    status=Literal["ok"],
    version=str,
)
