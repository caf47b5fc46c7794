"""What may stand in the grid of a sweep file: the options of ``aftereffect simulate``, each a value or a list of them."""

from collections.abc import Callable
from dataclasses import dataclass

from aftereffect.checks import MOST_SLOTS, arm_means, real, shown, whole
from aftereffect.environments import ENGINES
from aftereffect.errors import ParameterError
from aftereffect.seeds import LARGEST_SEED
from aftereffect.simulation.checkpoints import DEFAULT_COUNT, MOST_COUNT
from aftereffect.simulation.plan import MOST_REPLICATIONS
from aftereffect.spec import nearest


@dataclass(frozen=True)
class Key:
    """One of them: how a value is checked, what it is if it is not given, and whether a value is itself a list."""

    checked: Callable[[object], object]
    default: object = None
    of_lists: bool = False

    def is_single(self, given: object) -> bool:
        """Whether this is one value, and not a list of them."""
        return not isinstance(given, list) or (self.of_lists and bool(given) and not isinstance(given[0], list))


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ParameterError(f"expected text, in quotes, got {shown(given)}")
    return given


def _engine(given: object) -> str:
    if given not in ENGINES:
        raise ParameterError(f"unknown engine {shown(given)}: {nearest(str(given), ENGINES)}")
    return str(given)


def _whole(name: str, at_least: int, at_most: int) -> Callable[[object], int]:
    return lambda given: whole(name, given, at_least=at_least, at_most=at_most)


def _share(name: str) -> Callable[[object], float]:
    return lambda given: real(name, given, at_least=0, at_most=1)


KEYS = {
    "policy": Key(_text),
    "means": Key(arm_means, of_lists=True),
    "arms": Key(_whole("arms", 2, 1_000_000)),
    "best": Key(_share("best"), 0.9),
    "worst": Key(_share("worst"), 0.1),
    "spread": Key(_text),
    "reward": Key(_text),
    "rewards": Key(_text),
    "delays": Key(_text),
    "horizon": Key(_whole("horizon", 1, MOST_SLOTS)),
    "replications": Key(_whole("replications", 1, MOST_REPLICATIONS), 100),
    "seed": Key(_whole("seed", 0, LARGEST_SEED), 0),
    "engine": Key(_engine, "roundwise"),
    "checkpoints": Key(_whole("checkpoints", 1, MOST_COUNT), DEFAULT_COUNT),
}
#: At least one of each must be given, and at most one of each two.
REQUIRED = (("policy",), ("horizon",), ("means", "arms", "rewards"))
EXCLUSIVE = (
    ("means", "arms"),
    *((drawn, fixed) for drawn in ("means", "arms", "spread", "reward") for fixed in ("rewards", "delays")),
)
#: What makes sense only beside another.
NEEDS = {"best": "arms", "worst": "arms", "delays": "rewards"}
#: What the table of a sweep's results has besides the parameters.
RESULTS = ("environment", "regret_mean", "regret_sem", "regret_p95", "rounds_mean", "seconds", "part")
COLUMNS = (*KEYS, *RESULTS)
