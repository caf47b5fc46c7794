"""The settings of an experiment, which never change: arms, policy, range, horizon, seed."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any
from unicodedata import normalize

from aftereffect._core import (
    MAX_SEED,
    as_spec,
    check_float,
    check_int,
    check_sequence,
    parse,
    short_repr,
)
from aftereffect.delays import DelayFacts
from aftereffect.errors import ConflictError, ParameterError, SpecError, name_field
from aftereffect.policies import Policy

#: A slot per millisecond for 34 years. Policies that need no horizon get parameters for this one.
MAX_LIVE_SLOTS = 2**40
MAX_ARMS, MAX_NAME_LENGTH = 10_000, 100
#: The largest end of a reward range, so that sums of totals stay finite.
_MAX_REWARD = 1e100

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: A live experiment knows nothing about its delays.
_NO_FACTS = DelayFacts(math.inf, math.inf, math.inf)


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
        A policy or its spec string. It is refused if it needs facts about the delay that its
        parameters do not give.
    reward_range
        The smallest and the largest reward of one pull, summed over all slots in which it arrives.
    seed
        The seed of the random numbers that the policy draws.
    max_total
        The largest total that is accepted, against typing errors.
    horizon
        The number of slots that the experiment lasts. Some policies need it. No slot is decided
        beyond it.
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
            "name": check_name,
            "arms": _check_arms,
            "reward_range": _check_range,
            "seed": lambda seed: check_int("seed", seed, at_most=MAX_SEED),
            "max_total": lambda total: _check_max_total(total, self.reward_range[0]),
            "horizon": lambda slots: (
                slots
                if slots is None
                else check_int("horizon", slots, at_least=len(self.arms), at_most=MAX_LIVE_SLOTS)
            ),
            "policy": lambda policy: _check_policy(policy, self.horizon),
        }
        for name, check in checks.items():
            with name_field(name):
                object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def planned_slots(self) -> int:
        """The number of slots that the policy plans for."""
        return self.horizon or MAX_LIVE_SLOTS

    def scale(self, total: float) -> float:
        """Scale a total so that one pull brings 0 to 1."""
        low, high = self.reward_range
        return (total - low) / (high - low)

    def to_json(self) -> str:
        """Write the settings as text; equal settings give equal text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, in types that JSON has."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "policy": str(self.policy)
        }

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))

    def check_same(self, wanted: "Settings", *, any_seed: bool) -> None:
        """Refuse other settings for the same experiment; with `any_seed`, the seed may differ."""
        known, asked = self.to_dict(), wanted.to_dict()
        names = [
            name
            for name in known
            if known[name] != asked[name] and not (name == "seed" and any_seed)
        ]
        if names:
            recorded, given = ({name: each[name] for name in names} for each in (known, asked))
            changes = "; ".join(f"{name} is {known[name]}, got {asked[name]}" for name in names)
            raise ConflictError(
                f"experiment {self.name!r} already exists with other settings ({changes}): "
                "open it, or choose another name",
                recorded,
                given,
            )


def check_name(name: object) -> str:
    """Check the name of an experiment."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"an experiment's name must be 1 to {MAX_NAME_LENGTH} letters, digits, "
            f"'-', '_' or '.', got {short_repr(name)}"
        )
    return name


def _check_arms(arms: object) -> tuple[str, ...]:
    names = check_sequence("arms", arms)
    if not 2 <= len(names) <= MAX_ARMS:
        raise ParameterError(f"arms must be 2 to {MAX_ARMS:,} names, got {len(names)}")
    for name in names:
        if (
            not isinstance(name, str)
            or not 1 <= len(name) <= MAX_NAME_LENGTH
            or not name.isprintable()
            or name != name.strip()
        ):
            wanted = f"1 to {MAX_NAME_LENGTH} printable characters without spaces around them"
            raise ParameterError(f"an arm's name must be {wanted}, got {short_repr(name)}")
    # Two names that look alike would be the same to a reader.
    counts = Counter(normalize("NFC", str(name)) for name in names)
    repeated = [name for name, times in counts.items() if times > 1]
    if repeated:
        raise ParameterError(f"arms must have different names, got {short_repr(repeated[0])} twice")
    return tuple(str(name) for name in names)


def _check_max_total(total: object, low: float) -> float | None:
    return None if total is None else check_float("max_total", total, above=low)


def _check_range(reward_range: object) -> tuple[float, float]:
    ends = check_sequence("reward_range", reward_range)
    if len(ends) != 2:
        raise ParameterError(
            "reward_range must be two numbers, the least and the most that one pull can bring, "
            f"got {len(ends)}"
        )
    low = check_float(
        "the lower end of reward_range", ends[0], at_least=-_MAX_REWARD, at_most=_MAX_REWARD
    )
    high = check_float("the upper end of reward_range", ends[1], above=low, at_most=_MAX_REWARD)
    if high - low < 1 / _MAX_REWARD:
        raise ParameterError(
            f"the ends of reward_range must be at least {1 / _MAX_REWARD:g} apart, "
            f"got {low!r} and {high!r}"
        )
    return low, high


def _check_policy(policy: object, horizon: int | None) -> Policy:
    """Check that a policy can be stored as a spec string, and that it has what it needs."""
    chosen = as_spec(policy, Policy).with_delay_facts(_NO_FACTS)
    try:
        same = parse(str(chosen), Policy) == chosen
    except SpecError:
        same = False
    if not same:
        raise ParameterError(
            f"{chosen} cannot be used live: its spec string cannot be read back; "
            "put @aftereffect.register above your own classes"
        )
    if chosen.needs_horizon and horizon is None:
        raise ParameterError(
            f"{chosen} needs to know the number of slots in advance: pass horizon=..."
        )
    return chosen
