"""``aftereffect list``."""

from collections.abc import Callable
from typing import Literal, get_args

from aftereffect.columns import aligned
from aftereffect.environments import Environment
from aftereffect.growth import Growth
from aftereffect.paper import FIGURES
from aftereffect.policies import Policy
from aftereffect.rewards import Reward
from aftereffect.schedules import Schedule
from aftereffect.spec import Spec, registered, summary, usage
from aftereffect.spreads import Delaying

Kind = Literal["policies", "spreads", "growths", "rewards", "schedules", "environments", "figures"]
Rows = list[tuple[str, str]]


def _specs(kind: type[Spec]) -> Callable[[], Rows]:
    return lambda: [(usage(cls), summary(cls)) for cls in registered(kind)]


def _figures() -> Rows:
    return [(str(number), figure.caption) for number, figure in sorted(FIGURES.items())]


LISTS: dict[Kind, Callable[[], Rows]] = {
    "policies": _specs(Policy),
    "spreads": _specs(Delaying),
    "growths": _specs(Growth),
    "rewards": _specs(Reward),
    "schedules": _specs(Schedule),
    "environments": _specs(Environment),
    "figures": _figures,
}


def list_names(kind: Kind | None = None, /) -> None:
    """Print what there is, as it is written in spec strings.

    Parameters
    ----------
    kind
        What to list; everything if not given.
    """
    kinds: tuple[Kind, ...] = get_args(Kind) if kind is None else (kind,)
    for number, each in enumerate(kinds):
        if kind is None:
            print(f"{'' if number == 0 else chr(10)}{each}:")
        print(aligned(LISTS[each](), left=2))
