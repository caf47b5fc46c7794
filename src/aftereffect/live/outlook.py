"""What warns before an experiment goes wrong: one arm that is played alone for long, totals that come too late."""

from functools import lru_cache
from typing import cast

import numpy as np

from aftereffect.errors import ParameterError, about
from aftereffect.live.ledger import Ledger
from aftereffect.live.randomness import Draws
from aftereffect.live.settings import Settings
from aftereffect.policies import Policy

#: Rounds that are tried to find out when a second arm is played.
_MOST_ROUNDS = 2_000
#: Where policies planned less than this share of the slots, the rest only waited for totals.
_LEAST_PLANNED = 1 / 3


def check_playable(settings: Settings) -> None:
    """Refuse what cannot begin, or would play one arm from the beginning to the end. Nothing is recorded yet."""
    with about("policy"):
        alone = slots_alone(settings.policy, len(settings.arms), settings.planned_slots, settings.seed)
        if alone >= settings.planned_slots:
            raise ParameterError(
                f"{settings.policy} plays one arm for all {settings.planned_slots:,} slots of the horizon: "
                "give a longer horizon, shorter slots, or another policy such as ars-ucb"
            )


@lru_cache(maxsize=256)
def slots_alone(policy: Policy, arms: int, horizon: int, seed: int) -> int:
    """For how many slots the first arm is played, at least, before another one is.

    The policy is tried on totals that are all alike and come at once; with others it may take longer. One that draws its arms
    may draw another after the first round.
    """
    kernels, params, state = policy.kernels(), policy.params(arms, horizon), policy.initial(arms)
    draws = Draws(seed)
    rng = cast(np.random.Generator, draws)
    played, first = 0, None
    for _ in range(_MOST_ROUNDS):
        arm, slots, window = map(int, kernels.decide(*state, params, played, rng))
        if first is None:
            first = arm
        if arm != first or played >= horizon:
            break
        played += slots
        if draws.drawn:
            break
        kernels.absorb(*state, params, arm, window, 0.5 * window)
    return min(played, horizon)


def notes(ledger: Ledger) -> tuple[str, ...]:
    """Sentences that warn, where there is something to warn of."""
    return tuple(note for note in (_alone(ledger), _too_late(ledger)) if note)


def _alone(ledger: Ledger) -> str:
    settings = ledger.settings
    if ledger.closed or np.count_nonzero(ledger.tally.slots) > 1:
        return ""
    alone = slots_alone(settings.policy, len(settings.arms), settings.planned_slots, settings.seed)
    first = f"the first {alone:,} slots" if alone > 1 else "the first slot"
    share = f" ({alone / settings.horizon:.0%} of the horizon)" if settings.horizon else ""
    return f"{first} or more go to one arm, before another is tried{share}" if alone > len(settings.arms) else ""


def _too_late(ledger: Ledger) -> str:
    late = ledger.late()
    if not late or ledger.planned >= _LEAST_PLANNED * ledger.lasted:
        return ""
    held = 1 - ledger.planned / ledger.lasted
    return (
        f"totals come {late:,} slots late, and {held:.0%} of the slots were only held until they came: "
        "the rounds of this policy are too short for this feed"
    )
