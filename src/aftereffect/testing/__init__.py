"""Checks that every policy, bandit and storage must pass, yours as well as ours.

>>> from aftereffect import ArsUcb
>>> check_policy(ArsUcb())
"""

from aftereffect.testing._common import Script
from aftereffect.testing.bandits import check_bandit, script_totals, window_moments
from aftereffect.testing.policies import check_policy
from aftereffect.testing.storage import StorageContract

__all__ = [
    "Script",
    "StorageContract",
    "check_bandit",
    "check_policy",
    "script_totals",
    "window_moments",
]
