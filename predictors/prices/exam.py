"""The exam about prices: at each midnight all steps of the day that begins, to be answered from the days that ended."""

from datetime import tzinfo

import numpy as np

from offpeak.model.local_time import DAY_S, to_local_s, to_unix_s
from predictors.prices.history import HIGHEST, PriceHistory, Steps
from predictors.scores.exam import Exam

PriceExam = Exam[Steps, PriceHistory]


def price_exam(history: PriceHistory, zone: tzinfo, *, after_days: int = 1) -> PriceExam:
    """Ask at each midnight of the zone's clock what every step [currency per MWh] of that day will cost.

    Prices become known at the end of their day, so what is scored is a forecast, not a price that a market published
    the day before. Of the first `after_days` days nothing is asked. A gap is NaN in `actual`.
    """
    start_s = history.start_s + history.step_s * np.arange(len(history), dtype=np.int64)
    # Where a clock goes back over midnight, the day that has begun goes on.
    day = np.maximum.accumulate(to_local_s(start_s, zone) // DAY_S)
    begin_s, _ = to_unix_s(day * DAY_S, zone)
    end_s, _ = to_unix_s((day + 1) * DAY_S, zone)
    asked = day >= day[:1] + after_days
    actual = np.where(np.abs(history.price) <= HIGHEST, history.price, np.nan)
    return Exam(history.steps.take(asked), begin_s[asked], actual[asked], history, end_s)
