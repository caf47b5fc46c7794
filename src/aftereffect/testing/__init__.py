"""Checks that every policy, every environment and every storage must pass; for yours as for ours.

>>> from aftereffect import ArsUcb
>>> check_policy(ArsUcb())
"""

from aftereffect.testing.environments import check_environment
from aftereffect.testing.policies import check_policy
from aftereffect.testing.script import Script, totals, window_moments
from aftereffect.testing.storage import StorageContract

__all__ = ["Script", "StorageContract", "check_environment", "check_policy", "totals", "window_moments"]
