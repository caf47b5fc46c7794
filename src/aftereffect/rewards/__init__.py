"""Rewards: laws that draw them, schedules that fix them beforehand, and files that hold them."""

from aftereffect.rewards._history_files import (
    MAX_HISTORY,
    TimedTotal,
    check_timed_totals,
    lay_out,
    read_timed_totals,
)
from aftereffect.rewards.histories import (
    SLOT_LENGTHS,
    History,
    RecordedTotals,
    SlotName,
    as_history,
    read_history,
)
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
    "MAX_HISTORY",
    "READERS",
    "SEPARATORS",
    "SLOT_LENGTHS",
    "Bernoulli",
    "Beta",
    "Constant",
    "DrawnArm",
    "DrawnRewards",
    "History",
    "Recorded",
    "RecordedTotals",
    "RewardKernels",
    "RewardLaw",
    "RewardTable",
    "Rows",
    "Schedule",
    "SlotName",
    "TimedTotal",
    "Uniform",
    "as_history",
    "as_schedule",
    "check_timed_totals",
    "find_other_separator",
    "lay_out",
    "prepare_rewards",
    "read_history",
    "read_rewards",
    "read_timed_totals",
    "reward_source",
    "sum_by_arm",
    "table_source",
]
