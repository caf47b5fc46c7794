"""The command ``list``."""

from collections.abc import Callable
from typing import Literal, get_args

from aftereffect._core import Spec, list_registered, summary, text_table, usage
from aftereffect.bandits import Bandit
from aftereffect.delays import Delay
from aftereffect.growth import Growth
from aftereffect.policies import Policy
from aftereffect.reproduction import FIGURES
from aftereffect.rewards import RewardLaw, Schedule

Kind = Literal["policies", "delays", "growths", "reward-laws", "schedules", "bandits", "figures"]
Rows = list[tuple[str, str]]


def _specs(kind: type[Spec]) -> Callable[[], Rows]:
    return lambda: [(usage(cls), summary(cls)) for cls in list_registered(kind)]


def _figures() -> Rows:
    return [(key, figure.caption) for key, figure in FIGURES.items()]


LISTS: dict[Kind, Callable[[], Rows]] = {
    "policies": _specs(Policy),
    "delays": _specs(Delay),
    "growths": _specs(Growth),
    "reward-laws": _specs(RewardLaw),
    "schedules": _specs(Schedule),
    "bandits": _specs(Bandit),
    "figures": _figures,
}


def list_names(kind: Kind | None = None, /) -> None:
    """List all policies, delays, reward laws and more, in the form that other commands accept.

    Parameters
    ----------
    kind
        List only names of this kind.
    """
    kinds: tuple[Kind, ...] = get_args(Kind) if kind is None else (kind,)
    for number, each in enumerate(kinds):
        if kind is None:
            print(f"{'' if number == 0 else chr(10)}{each}:")
        print(text_table(LISTS[each](), left=2))
