"""The predictors of waits."""

from predictors.trees.history import Schedule
from predictors.waits.arbiter import Arbiter, WaitPredictor
from predictors.waits.boosted import SCHEDULE, BoostedWaits
from predictors.waits.nobody_waits import NobodyWaits
from predictors.waits.planned import PlannedWaits, PlanOfWaits
from predictors.waits.similar_jobs import SimilarJobs


def arbiter(plan: PlanOfWaits, schedule: Schedule = SCHEDULE) -> Arbiter:
    """Return what is asked by default: an arbiter over the published predictor, boosted trees and the what-if."""
    return Arbiter((SimilarJobs(), BoostedWaits(schedule=schedule), PlannedWaits(plan)))


def wait_predictors(plan: PlanOfWaits) -> tuple[WaitPredictor, ...]:
    """Return one of each, which have learned nothing; `plan` runs the scheduler on from a state."""
    return (NobodyWaits(), SimilarJobs(), BoostedWaits(), PlannedWaits(plan), arbiter(plan))
