"""The predictors of waits."""

from predictors.trees.grow import can_grow
from predictors.trees.history import Schedule
from predictors.waits.arbiter import Arbiter, WaitPredictor
from predictors.waits.boosted import SCHEDULE, BoostedWaits
from predictors.waits.nobody_waits import NobodyWaits
from predictors.waits.planned import PlannedWaits, PlanOfWaits
from predictors.waits.similar_jobs import SimilarJobs

ARBITER_WITHOUT_TREES = "arbiter without trees"


def arbiter(plan: PlanOfWaits, schedule: Schedule = SCHEDULE) -> Arbiter:
    """Return what is asked by default: an arbiter over the published predictor, boosted trees and the what-if.

    Without scikit-learn it has no trees, and another name: it gives other answers.
    """
    if not can_grow():
        return Arbiter((SimilarJobs(), PlannedWaits(plan)), ARBITER_WITHOUT_TREES)
    return Arbiter((SimilarJobs(), BoostedWaits(schedule=schedule), PlannedWaits(plan)))


def wait_predictors(plan: PlanOfWaits) -> tuple[WaitPredictor, ...]:
    """Return one of each that can be asked, which have learned nothing; `plan` runs the scheduler on from a state."""
    trees = (BoostedWaits(),) if can_grow() else ()
    return (NobodyWaits(), SimilarJobs(), *trees, PlannedWaits(plan), arbiter(plan))
