"""Rewards: laws that draw them, schedules that fix them beforehand, and files that hold them."""

from aftereffect.rewards.laws import (
    Bernoulli,
    Beta,
    Constant,
    RewardKernels,
    RewardLaw,
    Uniform,
    reward_source,
)
from aftereffect.rewards.schedules import (
    DrawnArm,
    DrawnRewards,
    Recorded,
    Rows,
    Schedule,
    as_schedule,
)
from aftereffect.rewards.tables import (
    READERS,
    SEPARATORS,
    RewardTable,
    find_other_separator,
    prepare_rewards,
    read_rewards,
    sum_by_arm,
    table_source,
)

__all__ = [
    "READERS",
    "SEPARATORS",
    "Bernoulli",
    "Beta",
    "Constant",
    "DrawnArm",
    "DrawnRewards",
    "Recorded",
    "RewardKernels",
    "RewardLaw",
    "RewardTable",
    "Rows",
    "Schedule",
    "Uniform",
    "as_schedule",
    "find_other_separator",
    "prepare_rewards",
    "read_rewards",
    "reward_source",
    "sum_by_arm",
    "table_source",
]
