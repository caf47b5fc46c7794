"""What an experiment is, for life: arms, policy, range, horizon, seed."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any
from unicodedata import normalize

from aftereffect.checks import real, sequence, shown, whole
from aftereffect.errors import ParameterError, SpecError, about
from aftereffect.knowledge import Knowledge
from aftereffect.policies import Policy
from aftereffect.seeds import LARGEST_SEED
from aftereffect.spec import as_spec, parse

#: A slot a millisecond for 34 years; policies that do without a horizon get parameters for this one.
MOST_LIVE_SLOTS = 2**40
MOST_ARMS = 10_000
LONGEST_NAME = 100
#: Of what totals may be, so that their sums are numbers.
_LARGEST = 1e100

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: Nobody knows the delays of the world.
_NOTHING = Knowledge(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Settings:
    """The settings of an experiment, checked.

    Parameters
    ----------
    name
        Letters, digits, ``-``, ``_`` and ``.``, 1 to 100 of them.
    arms
        The arms' names, at least two, all different.
    policy
        A policy or its spec string. One that must be told about delays is refused unless it is.
    reward_range
        The least and the most that one slot's play can bring in all, over its whole life.
    seed
        Of the random numbers that the policy draws.
    max_total
        The largest total that is believed, against typing errors.
    horizon
        How many slots the experiment lasts; needed by policies that plan for it, and then no slot is decided beyond it.
    """

    name: str
    arms: Sequence[str]
    policy: Policy
    reward_range: Sequence[float]
    seed: int
    max_total: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[Any], object]] = {
            "name": checked_name,
            "arms": _arms,
            "reward_range": _range,
            "seed": lambda seed: whole("seed", seed, at_most=LARGEST_SEED),
            "max_total": lambda total: total if total is None else real("max_total", total, above=self.reward_range[0]),
            "horizon": lambda slots: slots if slots is None else _horizon(slots, len(self.arms)),
            "policy": lambda policy: _policy(policy, self.horizon),
        }
        for name, check in checks.items():
            with about(name):
                object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def planned_slots(self) -> int:
        """For how many slots the policy's parameters are made."""
        return self.horizon or MOST_LIVE_SLOTS

    def scaled(self, total: float) -> float:
        """A slot's total on the scale where one play brings 0 to 1."""
        low, high = self.reward_range
        return (total - low) / (high - low)

    def written(self) -> str:
        """As text that `read` takes back, the same for equal settings."""
        return json.dumps(self.plain(), ensure_ascii=False)

    def plain(self) -> dict[str, Any]:
        """By name, in the types that JSON has."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"policy": str(self.policy)}

    @classmethod
    def read(cls, text: str) -> "Settings":
        """What `written` wrote."""
        return cls(**json.loads(text))


def checked_name(name: object) -> str:
    """The name of an experiment, if it can be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"an experiment's name must be 1 to {LONGEST_NAME} letters, digits, '-', '_' or '.', got {shown(name)}"
        )
    return name


def _arms(arms: object) -> tuple[str, ...]:
    names = sequence("arms", arms)
    if not 2 <= len(names) <= MOST_ARMS:
        raise ParameterError(f"arms must be 2 to {MOST_ARMS:,} names, got {len(names)}")
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
            wanted = f"1 to {LONGEST_NAME} printable characters without blanks around them"
            raise ParameterError(f"an arm's name must be {wanted}, got {shown(name)}")
    # Two that look alike would be one to whoever reads them.
    repeated = [name for name, times in Counter(normalize("NFC", str(name)) for name in names).items() if times > 1]
    if repeated:
        raise ParameterError(f"arms must have different names, got {shown(repeated[0])} twice")
    return tuple(str(name) for name in names)


def _range(reward_range: object) -> tuple[float, float]:
    ends = sequence("reward_range", reward_range)
    if len(ends) != 2:
        raise ParameterError(f"reward_range must be two numbers, the least and the most a play can bring, got {len(ends)}")
    low = real("the lower end of reward_range", ends[0], at_least=-_LARGEST, at_most=_LARGEST)
    high = real("the upper end of reward_range", ends[1], above=low, at_most=_LARGEST)
    if high - low < 1 / _LARGEST:
        raise ParameterError(f"the ends of reward_range must be at least {1 / _LARGEST:g} apart, got {low!r} and {high!r}")
    return low, high


def _horizon(slots: object, arms: int) -> int:
    return whole("horizon", slots, at_least=arms, at_most=MOST_LIVE_SLOTS)


def _policy(policy: object, horizon: int | None) -> Policy:
    """A policy that can be written down and knows what it must."""
    chosen = as_spec(policy, Policy).told(_NOTHING)
    try:
        same = parse(str(chosen), Policy) == chosen
    except SpecError:
        same = False
    if not same:
        raise ParameterError(
            f"{chosen} cannot play live: it is recorded as a spec string, and this one cannot be read back; "
            "put @aftereffect.spec.register above a class of your own"
        )
    if chosen.needs_horizon and horizon is None:
        raise ParameterError(f"{chosen} plans ahead: give a horizon, the number of slots that the experiment will last")
    return chosen
