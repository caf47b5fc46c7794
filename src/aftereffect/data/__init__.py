"""The original files of the paper's adversarial experiments, as a user has downloaded them from Kaggle.

Their rules do not allow to pass them on, so the package brings none of their rows: `load_outbrain` and `load_coupon` read
the user's own copies, and `aftereffect.data.stand_ins` has a few published averages for those who have none.
"""

from aftereffect.data.coupon import Coupons, load_coupon
from aftereffect.data.outbrain import Clicks, load_outbrain

__all__ = ["Clicks", "Coupons", "load_coupon", "load_outbrain"]
