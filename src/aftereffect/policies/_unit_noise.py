"""The noise of units: what is common to all of them, and what is each unit's own.

A filter makes the series of all units white, as far as it is learned, and weights say how much each
of their values counts: surprises count less (Huber's weights).
"""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Vector

#: Residuals beyond so many deviations are cut before a filter is learned, and surprises beyond
#: `_SURPRISE` count less.
_CUT, _SURPRISE = 4.0, 1.5
#: The windows by which noise is predicted, and for each of them so many are needed.
_ORDER, _PER_ORDER = 4, 8
#: For how many windows what is usual of noise counts: its standard deviation, the part that is a
#: level, and the persistence of that.
_USUAL, _USUAL_SPREAD, _USUAL_LEVEL, _PERSISTENCE = 20.0, 0.06, 0.7, 0.9
#: The smallest standard deviation, and what is added to covariances, as a part of the variance.
_MIN_SPREAD, _RIDGE = 0.003, 0.01
#: A median of absolute values, times this, is the standard deviation of normal numbers.
_NORMAL = 1.4826

Cube: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Series(NamedTuple):
    """Series by window and unit: the filter that makes them white, weights, and deviations."""

    filter: Vector
    weights: Matrix
    spreads: Vector


class Noise(NamedTuple):
    """What is known of the noise of units apart from their mean, and of the noise of that mean.

    `mixing` are the weights of units in the mean, by window. Of both series, what a fit has left is
    here without levels and bursts.
    """

    mixing: Matrix
    apart: Series
    apart_left: Matrix
    common: Series
    common_left: Matrix


def learn_noise(values: Matrix, fitted: Matrix) -> Noise:
    """Learn noise from what a fit leaves of the values."""
    known = ~np.isnan(values)
    left = np.where(known, values - fitted, 0.0)
    mixing = known / np.maximum(known.sum(axis=1, keepdims=True), 1)
    for _ in range(2):  # all units alike, then by how precise they are
        common = (mixing * left).sum(axis=1, keepdims=True)
        apart_left = _take_out_levels(np.where(known, left - common, 0.0), known)
        apart = _whiten(apart_left, known)
        mixing = known / apart.spreads**2
        mixing /= np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)
    some = np.asarray(known.any(axis=1))[:, None]
    common_left = _take_out_levels(common, some)
    units = values.shape[1]
    # Differences from the mean of all units are smaller than noise, and depend on each other.
    apart = apart._replace(weights=apart.weights * (1 - 1 / units))
    return Noise(mixing, apart, apart_left, _whiten(common_left, some), common_left)


def _take_out_levels(left: Matrix, known: Mask) -> Matrix:
    """Subtract the median of each column; cut bursts; 0 where nothing is known."""
    some = np.where(known, left, np.nan)
    some[:, ~known.any(axis=0)] = 0.0
    some = some - np.nanmedian(some, axis=0)
    limit = _CUT * np.maximum(_NORMAL * np.nanmedian(np.abs(some), axis=0), _MIN_SPREAD)
    return np.where(known, np.clip(some, -limit, limit), 0.0)


def _whiten(left: Matrix, known: Mask) -> Series:
    """The filter that makes columns white, weights of their values, and their deviations."""
    counts = known.sum(axis=0)
    spreads = np.sqrt((_USUAL * _USUAL_SPREAD**2 + (left**2).sum(axis=0)) / (_USUAL + counts))
    scaled = left / spreads
    lags = np.arange(_ORDER + 1)
    together = _USUAL * (_USUAL_LEVEL * _PERSISTENCE**lags + (1 - _USUAL_LEVEL) * (lags == 0))
    for lag in range(min(_ORDER + 1, len(left))):
        together[lag] += (scaled[lag:] * scaled[: len(left) - lag]).sum()
    order = min(_ORDER, len(left) // _PER_ORDER)
    matrix = together[np.abs(lags[:order, None] - lags[:order])]
    matrix = matrix + _RIDGE * together[0] * np.eye(order)
    weights = np.linalg.solve(matrix, together[1 : order + 1])
    whitener = np.append(1.0, -weights)
    white = apply_filter(whitener, left)
    part = math.sqrt(max(1.0 - weights @ together[1 : order + 1] / together[0], 1e-3))
    usual = _USUAL_SPREAD * part
    magnitudes = np.where(known, np.abs(white), np.nan)
    magnitudes[:, counts == 0] = usual / _NORMAL
    medians = _NORMAL * np.nanmedian(magnitudes, axis=0)
    found = np.sqrt((_USUAL * usual**2 + counts * medians**2) / (_USUAL + counts))
    found = np.maximum(found, _MIN_SPREAD)
    surprises = np.maximum(np.abs(white) / (_SURPRISE * found), 1.0)
    return Series(whitener, known / (surprises * found**2), found)


def apply_filter(whitener: Vector, rows: Cube) -> Cube:
    """The filter along the first axis."""
    white = rows.copy()
    for lag in range(1, min(len(whitener), len(rows))):
        white[lag:] += whitener[lag] * rows[:-lag]
    return white
