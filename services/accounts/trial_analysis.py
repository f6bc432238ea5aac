"""The effect of a lever measured by on/off days: a regression over the blocks of a trial, with its interval.

The logarithm of a block's energy, or of the price paid for it, is regressed on whether the lever is on, the load, the
outside temperature and the day of the week, as option C of the IPMVP adjusts a whole facility. The standard error is
HC2 (MacKinnon and White 1985) with Student's t: right also if the lever changes the variation. Days are drawn, so that
errors which persist over days do not make the interval too short.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from statistics import NormalDist

import numpy as np

from offpeak.ledger.rows import TrialBlock
from offpeak.model.arrays import Float64

LEAST_BLOCKS, LEAST_FREE = 14, 8
"""A result needs that many blocks, and that many more than the regression has coefficients."""
BLOCKS_PER_COLUMN = 5
"""The day of the week is left out while there are fewer blocks for each column."""
FILLED_SHARE = 0.1
"""A covariate that is missing in no more blocks than this has its mean there."""


@dataclass(frozen=True)
class TrialEffect:
    """The saving while the lever is on [%], with the bounds of its 95 % interval.

    `adjusted_for` names the covariates. `blocks_to_prove` is the number of blocks after which the interval of a saving
    of this size excludes 0; None if there is no saving.
    """

    saving_percent: float
    low_percent: float
    high_percent: float
    adjusted_for: tuple[str, ...]
    blocks_to_prove: int | None


def make_covariates(
    blocks: Sequence[TrialBlock], zone: tzinfo, *, load: Float64, outside_c: Float64
) -> dict[str, Float64]:
    """Return the covariates of the blocks by name, the most useful first; NaN is not known."""
    begins = [datetime.fromtimestamp(block.from_unix_s, zone) for block in blocks]
    days = [[at.weekday() == day for day in range(1, 7)] + [at.hour >= 12] for at in begins]
    return {"load": load, "outside temperature": outside_c, "day of the week": np.array(days, np.float64)}


def estimate_effect(value: Float64, is_on: Float64, covariates: Mapping[str, Float64]) -> TrialEffect | str:
    """Return the effect of the lever, or why there is none yet.

    `value` is positive, `is_on` 0 or 1. A covariate has one or more columns with a row for each block; one that is not
    known, or that repeats others, is left out.
    """
    blocks, on = len(value), int(is_on.sum())
    if min(on, blocks - on) < LEAST_BLOCKS // 2:
        return f"{on} on and {blocks - on} off: a result needs {LEAST_BLOCKS // 2} of each"
    columns, adjusted_for = np.column_stack([np.ones(blocks), is_on]), tuple[str, ...]()
    for name, covariate in covariates.items():
        added = np.column_stack([columns, _filled(covariate.reshape(blocks, -1))])
        is_wide = covariate.ndim > 1 and blocks < BLOCKS_PER_COLUMN * added.shape[1]
        if added.shape[1] > columns.shape[1] and not is_wide and blocks - added.shape[1] >= LEAST_FREE:
            columns, adjusted_for = added, (*adjusted_for, name)
    inverse, logs = np.linalg.pinv(columns), np.log(value)
    effect = inverse @ logs
    leverage = np.minimum((columns * inverse.T).sum(axis=1), 1 - 1e-9)
    error = np.linalg.norm(inverse[1] * (logs - columns @ effect) / np.sqrt(1 - leverage))
    reach = student_quantile(blocks - columns.shape[1]) * float(error)
    saving, low, high = (-100 * math.expm1(effect[1] + shift) for shift in (0.0, reach, -reach))
    needed = math.ceil(blocks * (reach / effect[1]) ** 2) if effect[1] < 0 else None
    return TrialEffect(saving, low, high, adjusted_for, needed)


def _filled(covariate: Float64) -> Float64:
    """Return the columns that vary, standardised; none if too much is missing."""
    is_missing = np.isnan(covariate)
    if is_missing.any(axis=1).mean() > FILLED_SHARE:
        return covariate[:, :0]
    centred = np.where(is_missing, 0.0, covariate - np.nanmean(covariate, axis=0))
    spread = centred.std(axis=0)
    varies = spread > 1e-9 * (1 + np.abs(covariate[~is_missing]).max(initial=0.0))
    return np.asarray(centred[:, varies] / spread[varies])


def student_quantile(degrees: int, share: float = 0.975) -> float:
    """Return the quantile of Student's t (Abramowitz and Stegun, 26.7.5), from 8 degrees on correct to 0.001."""
    x = NormalDist().inv_cdf(share)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
