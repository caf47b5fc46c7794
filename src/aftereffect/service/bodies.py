"""What goes over the wire: pydantic models, which are also the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from aftereffect.live.rules import LONGEST_KEY
from aftereffect.live.settings import LONGEST_NAME, MOST_ARMS, MOST_LIVE_SLOTS
from aftereffect.policies import Policy
from aftereffect.seeds import LARGEST_SEED
from aftereffect.spec import name_of, registered

_LONGEST_POLICY = 1_000
_POLICY = rf"^({'|'.join(map(name_of, registered(Policy)))})(\(.*\))?$"

Name = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$", description="The experiment's name.")]
Number = Annotated[int, Field(ge=0, lt=MOST_LIVE_SLOTS, description="The number of a slot, from 0 on.")]
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


Revise = Annotated[bool, Field(description="Replace what was told before, while the slot's round is open.")]


class NewTotal(Strict):
    """A slot's total."""

    value: Annotated[Finite, Field(description="All that was seen in the slot.", examples=[37])]
    revise: Revise = False


class NewMissing(Strict):
    """A slot whose total will never be known."""

    missing: Annotated[Literal[True], Field(description="It is.")]
    revise: Revise = False


NewOutcome = NewTotal | NewMissing


class SlotAnswer(BaseModel):
    """A decided slot: play `arm`; the round is planned up to slot `until`; in a `hold` slot it waits for its totals."""

    slot: int
    arm: str
    round: int
    until: int
    hold: bool


class OutcomeAnswer(BaseModel):
    """What telling did; `counts` says whether the total will be learned from."""

    slot: int
    value: float | None
    change: Literal["recorded", "unchanged", "revised"]
    counts: bool


class ArmAnswer(BaseModel):
    """One arm: the average of the totals that counted while it was played, and what the policy adds to it."""

    arm: str
    slots: int
    share: float | None
    rounds: int
    mean: float | None
    radius: float | None


class NextAnswer(BaseModel):
    """What the next slot will be."""

    slot: int
    arm: str
    round: int
    until: int
    hold: bool


class StatusAnswer(BaseModel):
    """How an experiment stands."""

    name: str
    policy: str
    seed: int
    horizon: int | None
    closed: bool
    slots: int
    told: int
    missing: int
    rounds: int
    arms: list[ArmAnswer]
    next: NextAnswer | None
    awaited: Annotated[list[int], Field(description="Planned slots of the open round that were played and not told.")]


class ExperimentsAnswer(BaseModel):
    """The names of all experiments, in the order of their creation."""

    experiments: list[str]


class LineAnswer(BaseModel):
    """One slot of the history."""

    slot: int
    arm: str
    round: int
    hold: bool
    value: float | None
    missing: bool
    counts: bool
    revisions: int
    decided_at: str
    told_at: str | None


class HistoryAnswer(BaseModel):
    """Some slots; ask for those after `last` to go on, until there are none."""

    slots: list[LineAnswer]
    last: int


class PieceAnswer(BaseModel):
    """Some slots that follow each other: their totals, the arm and round of the last, and plays of each arm up to there."""

    first: int
    last: int
    arm: int
    round: int
    mean: float | None
    least: float | None
    most: float | None
    plays: list[int]


class TimelineAnswer(BaseModel):
    """An experiment from its beginning to now, in pieces of `width` slots."""

    slots: int
    width: int
    pieces: list[PieceAnswer]


class DifferenceAnswer(BaseModel):
    """From where on today's code would decide otherwise."""

    slot: int
    version: str


class VerificationAnswer(BaseModel):
    """What was found by checking everything."""

    name: str
    events: int
    slots: int
    rounds: int
    problems: list[str]
    difference: DifferenceAnswer | None
    whole: bool


class Problem(BaseModel):
    """Why a request was refused. `field` names what it is about; of a conflict, both sides are told."""

    message: str
    field: str | None = None
    recorded: dict[str, Any] | None = None
    given: dict[str, Any] | None = None


class Health(BaseModel):
    """The service answers, and so does its storage."""

    status: Literal["ok"]
    version: str
