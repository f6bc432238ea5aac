"""The predictors of power that learn from readings, by what they say at first."""

from collections.abc import Callable

from offpeak.model.jobs import Jobs
from predictors.job_power.boosted import boosted_power
from predictors.job_power.flat import Flat
from predictors.job_power.history import PowerHistory
from predictors.port import Predictor

POWER_PREDICTORS: tuple[Callable[[float], Predictor[Jobs, Jobs]], ...] = (Flat, PowerHistory, boosted_power)
"""Each makes a predictor that says the given draw [W per allocated unit] until it has learned something."""
