"""The predictors of run times, by name."""

from collections.abc import Callable

from offpeak.model.jobs import Jobs
from predictors.port import Predictor
from predictors.run_times.boosted import boosted_run_time
from predictors.run_times.last_two import LastTwo
from predictors.run_times.user_estimate import UserEstimate

RUN_TIME_PREDICTORS: tuple[Callable[[], Predictor[Jobs, Jobs]], ...] = (UserEstimate, LastTwo, boosted_run_time)
"""Each makes a predictor that has learned nothing."""
