"""Checks that every policy and every environment must pass; for yours as for ours.

>>> from aftereffect import ArsUcb
>>> check_policy(ArsUcb())
"""

from aftereffect.testing.environments import check_environment
from aftereffect.testing.policies import check_policy
from aftereffect.testing.script import Script, totals, window_moments

__all__ = ["Script", "check_environment", "check_policy", "totals", "window_moments"]
