"""An environment from the words of a command line or a file."""

from pathlib import Path

from aftereffect.data.rewards_file import READERS, read_rewards
from aftereffect.environments.adversarial import AdversarialBandit
from aftereffect.environments.base import Environment
from aftereffect.environments.stochastic import StochasticBandit
from aftereffect.errors import ParameterError
from aftereffect.rewards import Reward
from aftereffect.schedules import Recorded, Schedule
from aftereffect.spec import parse
from aftereffect.spreads import Delaying, Spreading


def described(
    *,
    means: tuple[float, ...] | None = None,
    spread: str | None = None,
    reward: str | None = None,
    rewards: str | None = None,
    delays: str | None = None,
    folder: Path = Path(),
    option: str = "{}",
) -> Environment:
    """The bandit that these describe.

    Rewards are drawn (`means`, `spread`, `reward`) or were fixed beforehand (`rewards`, `delays`). A file of rewards is looked
    for in `folder`; `option` is how these words are written where the user wrote them, for messages.
    """
    drawn = {"means": means, "spread": spread, "reward": reward}
    fixed = {"rewards": rewards, "delays": delays}
    given = [[option.format(word) for word, value in words.items() if value is not None] for words in (drawn, fixed)]
    if all(given):
        raise ParameterError(f"rewards are drawn ({given[0][0]}) or fixed beforehand ({given[1][0]}), not both")
    if rewards is not None:
        named = "(" in rewards and Path(rewards).suffix.lower() not in READERS
        schedule = parse(rewards, Schedule) if named else Recorded(read_rewards(folder / rewards))
        return AdversarialBandit(schedule, parse(delays or "immediate", Delaying))
    if means is None:
        wanted = ", or ".join(
            f"{option.format(word)}, such as {example}" for word, example in (("means", ".9,.8,.7"), ("rewards", "clicks.csv"))
        )
        raise ParameterError(f"what is played is missing: give {wanted}")
    return StochasticBandit(means, parse(spread or "immediate", Spreading), parse(reward or "bernoulli", Reward))
