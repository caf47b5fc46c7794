"""The original data of the paper's adversarial experiments, two competitions of Kaggle.

Their rules do not allow others to pass the files on, so the package has none of their rows:
`load_outbrain` and `load_coupon` read the user's own copies.
"""

from aftereffect.reproduction.datasets.coupon import Coupons, load_coupon
from aftereffect.reproduction.datasets.outbrain import Clicks, load_outbrain

__all__ = ["Clicks", "Coupons", "load_coupon", "load_outbrain"]
