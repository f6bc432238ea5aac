"""How much each model counts: the less it was wrong of late, the more."""

import numpy as np

from offpeak.model.arrays import Float64

# Half the error counts 2 to that power as much.
SHARPNESS = 4
# A model that was right for fewer days may have been lucky.
ENOUGH_DAYS = 7


def shares(error: Float64, speaking: Float64) -> Float64:
    """Return each model's share, float64[models], that sum to 1.

    `error` float64[days, models, 24] are past errors, NaN where a model said nothing; `speaking` float64[models, 24]
    are the forecasts that the shares are for. A model counts nothing while another one has been judged for longer.
    """
    speaks = ~np.isnan(speaking).any(axis=1)
    days = np.where(speaks, (~np.isnan(error).any(axis=2)).sum(axis=0), 0)
    if days.max() == 0:
        return np.asarray(speaks / speaks.sum())
    judged = days >= min(ENOUGH_DAYS, days.max())
    wrong = np.nanmean(np.abs(error[:, judged]), axis=(0, 2))
    # In relation to the best, so that no power of a small or large error leaves the range of numbers.
    best = max(float(wrong.min()), 1e-9)
    share = np.zeros(len(days))
    share[judged] = (best / np.maximum(wrong, best)) ** SHARPNESS
    return share / float(share.sum())


def mixed(forecast: Float64, share: Float64) -> Float64:
    """Return the mean of forecasts float64[..., models, 24] by these shares, float64[..., 24].

    Where a model is silent (NaN) the others' shares grow; NaN where all that have a share are.
    """
    weight = np.where(np.isnan(forecast), 0.0, share[:, None])
    total = weight.sum(axis=-2)
    summed = (weight * np.nan_to_num(forecast)).sum(axis=-2)
    return np.asarray(np.divide(summed, total, out=np.full(summed.shape, np.nan), where=total > 0))
