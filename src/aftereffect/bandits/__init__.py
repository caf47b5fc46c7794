"""Bandits: simulated worlds that turn pulls into totals, each with two engines of the same law.

`bandit_from_options` makes one from the options of a command line or the keys of a file.
"""

from pathlib import Path

from aftereffect._core import parse
from aftereffect.bandits._defects import Defects
from aftereffect.bandits._demand import DemandBandit
from aftereffect.bandits.base import ENGINES, Bandit, EngineName
from aftereffect.bandits.history_bandit import HistoryBandit
from aftereffect.bandits.linear_bandit import LinearBandit
from aftereffect.bandits.reward_bandits import AdversarialBandit, StochasticBandit
from aftereffect.bandits.seasonal_bandit import SeasonalBandit
from aftereffect.delays import Delay
from aftereffect.errors import ParameterError
from aftereffect.rewards import READERS, Recorded, RewardLaw, Schedule, read_rewards

__all__ = [
    "ENGINES",
    "AdversarialBandit",
    "Bandit",
    "Defects",
    "DemandBandit",
    "EngineName",
    "HistoryBandit",
    "LinearBandit",
    "SeasonalBandit",
    "StochasticBandit",
    "bandit_from_options",
]


def bandit_from_options(
    *,
    bandit: str | None = None,
    means: tuple[float, ...] | None = None,
    reward_law: str | None = None,
    rewards: str | None = None,
    delay: str | None = None,
    folder: Path = Path(),
    option: str = "{}",
) -> Bandit:
    """The bandit that these options describe.

    `bandit` is the spec string of a whole one. Else rewards are drawn (`means`, `reward_law`) or
    were fixed beforehand (`rewards`). A file of rewards is looked for in `folder`. `option` is how
    the user writes these names, for messages.
    """
    drawn = {"means": means, "reward-law": reward_law}
    if bandit is not None:
        parts = {**drawn, "rewards": rewards, "delay": delay}
        doubled = [option.format(word) for word, value in parts.items() if value is not None]
        if doubled:
            raise ParameterError(
                f"{option.format('bandit')} describes the whole bandit, got {doubled[0]} as well: "
                "write it within the bandit"
            )
        return parse(bandit, Bandit)
    given = [option.format(word) for word, value in drawn.items() if value is not None]
    if rewards is not None:
        if given:
            raise ParameterError(
                f"rewards are drawn ({given[0]}) or fixed beforehand ({option.format('rewards')}), "
                "not both"
            )
        is_spec = "(" in rewards and Path(rewards).suffix.lower() not in READERS
        schedule = parse(rewards, Schedule) if is_spec else Recorded(read_rewards(folder / rewards))
        return AdversarialBandit(schedule, parse(delay or "immediate", Delay))
    if means is None:
        raise ParameterError(
            f"no bandit given: pass {option.format('means')} .9,.8,.7, "
            f"{option.format('rewards')} clicks.csv or {option.format('bandit')} SPEC"
        )
    law = parse(reward_law or "bernoulli", RewardLaw)
    return StochasticBandit(means, parse(delay or "immediate", Delay), law)
