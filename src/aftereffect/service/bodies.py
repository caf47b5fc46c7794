"""What goes over the wire: pydantic models, which are also the OpenAPI document."""

import inspect
import re
from collections.abc import Collection
from types import GenericAlias
from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from aftereffect.lag import LagEstimate, Quantity
from aftereffect.live import ArmStatus, Line, Next, Outcome, Slot, Status, Verification
from aftereffect.live.ledger import Difference
from aftereffect.live.rules import LONGEST_KEY
from aftereffect.live.settings import LONGEST_NAME, MOST_ARMS, MOST_LIVE_SLOTS
from aftereffect.policies import Policy
from aftereffect.seeds import LARGEST_SEED
from aftereffect.service.timeline import Piece
from aftereffect.spec import name_of, registered

_LONGEST_POLICY = 1_000
_POLICY = rf"^({'|'.join(map(name_of, registered(Policy)))})(\(.*\))?$"


def plain_digits(given: object) -> object:
    """Refuse texts that are read as numbers and not written as such: 0.0, +0, 1_0, 007."""
    if isinstance(given, str) and not re.fullmatch(r"0|[1-9][0-9]*|-[1-9][0-9]*", given):
        raise ValueError("a slot is written in plain digits, such as 17")
    return given


Name = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$", description="The experiment's name.")]
Number = Annotated[
    int, Field(ge=0, lt=MOST_LIVE_SLOTS, description="The number of a slot, from 0 on."), BeforeValidator(plain_digits)
]
Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="Made up by who asks, for one slot alone: the same key gives the same slot.",
    ),
]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Strict(BaseModel):
    """Takes what it says and nothing else: a number in quotes is a text."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewExperiment(Strict):
    """The settings of an experiment, for life."""

    name: Name
    arms: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]],
        Field(
            min_length=2, max_length=MOST_ARMS, description="What to choose from, all different.", examples=[["A", "B", "C"]]
        ),
    ]
    policy: Annotated[
        str, Field(max_length=_LONGEST_POLICY, pattern=_POLICY, description="A policy's spec string.", examples=["ars-ucb"])
    ]
    reward_range: Annotated[
        list[Finite],
        Field(
            min_length=2,
            max_length=2,
            description="The least and the most that the play of one slot can bring in all, over its whole life.",
            examples=[[0, 200]],
        ),
    ]
    max_total: Annotated[Finite | None, Field(description="The largest total to believe.")] = None
    horizon: Annotated[
        int | None, Field(ge=2, le=MOST_LIVE_SLOTS, description="How many slots it lasts; some policies need it.")
    ] = None
    seed: Annotated[int | None, Field(ge=0, le=LARGEST_SEED, description="Of what a policy draws; drawn if not given.")] = None


Revise = Annotated[bool, Field(description="Replace what was told before, while no decision was made by it.")]


Value = Annotated[Finite, Field(description="All that was seen in the slot.", examples=[37])]
Arm = Annotated[
    str | None, Field(max_length=LONGEST_NAME, description="The arm that was really played, if not the one advised.")
]
Confirm = Annotated[bool, Field(description="It is right, however far from all that was seen.")]


class NewTotal(Strict):
    """A slot's total."""

    value: Value
    arm: Arm = None
    revise: Revise = False
    confirm: Confirm = False


class NewMissing(Strict):
    """A slot whose total will never be known."""

    missing: Annotated[Literal[True], Field(description="It is.")]
    revise: Revise = False


NewOutcome = NewTotal | NewMissing
#: So that a batch fits into a body, and nobody who writes waits long for it.
MAX_OUTCOMES = 10_000


class ListedTotal(Strict):
    """The total of one slot among several."""

    slot: Number
    value: Value
    arm: Arm = None


class ListedMissing(Strict):
    """One slot among several whose total will never be known."""

    slot: Number
    missing: Annotated[Literal[True], Field(description="It is.")]


class NewOutcomes(Strict):
    """What several slots brought: all of it is recorded, or nothing."""

    outcomes: Annotated[list[ListedTotal | ListedMissing], Field(max_length=MAX_OUTCOMES)]
    revise: Revise = False
    confirm: Confirm = False


class NewGap(Strict):
    """Slots for which nothing was decided."""

    first: Annotated[int, Field(ge=0, lt=MOST_LIVE_SLOTS, description="The next slot.")]
    last: Annotated[int, Field(ge=0, lt=MOST_LIVE_SLOTS, description="The last slot of the gap.")]


def answer(name: str, says: str, /, **fields: Any) -> Any:
    """A model of what is answered."""
    return create_model(name, __doc__=says, **cast(Any, {field: (kind, ...) for field, kind in fields.items()}))


def answer_of(told: type, /, *, without: Collection[str] = (), **further: Any) -> Any:
    """The model of what the library tells, field by field; given are those that JSON has another type for, or more of."""
    fields = {name: hint for name, hint in get_type_hints(told).items() if name not in without}
    return answer(f"{told.__name__}Answer", inspect.getdoc(told) or "", **fields | further)


def several(model: Any) -> Any:
    """A list of them."""
    return GenericAlias(list, (model,))


SlotAnswer = answer_of(Slot, without=["number"], slot=int)
OutcomeAnswer = answer_of(Outcome)
OutcomesAnswer = answer("OutcomesAnswer", "What telling each of them did, in their order.", outcomes=several(OutcomeAnswer))
StatusAnswer = answer_of(
    Status, arms=several(answer_of(ArmStatus)), next=answer_of(Next) | None, awaited=list[int], notes=list[str]
)
VerificationAnswer = answer_of(Verification, problems=list[str], difference=answer_of(Difference) | None, whole=bool)
ExperimentsAnswer = answer("ExperimentsAnswer", "All experiments, in the order of their creation.", experiments=list[str])
DeletionAnswer = answer("DeletionAnswer", "The experiment is gone.", deleted=str)
HistoryAnswer = answer(
    "HistoryAnswer", "Some slots; to go on, ask for those after `last`.", slots=several(answer_of(Line)), last=int
)
TimelineAnswer = answer(
    "TimelineAnswer",
    "An experiment from its beginning to now, in pieces of `width` slots.",
    slots=int,
    width=int,
    pieces=several(answer_of(Piece)),
)
LagAnswer = answer_of(
    LagEstimate,
    mean=float | None,
    high=float | None,
    lingers=answer_of(Quantity, value=float | None, high=float | None),
    lags=list[int],
    landed=list[float],
    landed_low=list[float],
    landed_high=list[float],
)
Health = answer("Health", "The service answers, and so does its storage.", status=Literal["ok"], version=str)


class Problem(BaseModel):
    """Why a request was refused. `field` names what it is about; of a conflict, both sides are told."""

    message: str
    field: str | None = None
    recorded: dict[str, Any] | None = None
    given: dict[str, Any] | None = None
