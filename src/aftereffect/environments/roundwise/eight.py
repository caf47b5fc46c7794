"""Eight pulls at a time, where rewards are 0 or 1: what any of the 256 outcomes adds to a fading sum is looked up."""

import numpy as np

from aftereffect.kernels import Matrix, Vector


def outcomes(fades: Vector) -> Matrix:
    """For each outcome, as the bits of its number: how many ones, then what they add to sums that fade so much per slot."""
    ones = np.array([[outcome >> 7 - pull & 1 for pull in range(8)] for outcome in range(256)])
    ages = np.arange(7, -1, -1)[:, np.newaxis]
    return np.column_stack([ones.sum(axis=1), ones @ fades**ages])
