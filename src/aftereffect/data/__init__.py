"""Rewards from files: one's own, and the original ones of the paper's adversarial experiments, from Kaggle.

The rules of the latter do not allow to pass them on, so the package brings none of their rows: `load_outbrain` and
`load_coupon` read the user's own copies, and `aftereffect.data.stand_ins` has a few published averages for those who have none.
"""

from aftereffect.data.coupon import Coupons, load_coupon
from aftereffect.data.outbrain import Clicks, load_outbrain
from aftereffect.data.rewards_file import read_rewards

__all__ = ["Clicks", "Coupons", "load_coupon", "load_outbrain", "read_rewards"]
