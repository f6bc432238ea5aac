"""The jobs of a scheduling cycle as columns: what each asks for, and what its owner wants of the grid."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import NEVER
from plugin.federation.grid import UNKNOWN


class Goal(IntEnum):
    """What a job's owner wants least of; UNSAID leaves it to the policy."""

    UNSAID = -1
    TIME = 0
    COST = 1
    CO2 = 2
    ENERGY = 3


@dataclass(frozen=True, eq=False)
class GridJobs:
    """n jobs in the order of their submission.

    `cores` is what each asks for: in a grid whose sites all have one core to a unit, these are units of any kind, such
    as nodes. `estimate_s` is the user's run time at the site `home`. `project` and `application` are numbers of the
    grid, UNKNOWN for others. `data_mb` moves with the job. `latest_end_s` [Unix s] is the green SLA's latest finish,
    NEVER without one. `features` are masks of the grid, `goal` is a `Goal`. `power_factor` is the job's draw as a
    multiple of the site's draw per unit.
    """

    job_id: Int64
    cores: Int64
    estimate_s: Int64
    submit_s: Int64
    home: Int64
    user: Int64
    project: Int64
    application: Int64
    data_mb: Float64
    latest_end_s: Int64
    features: NDArray[np.uint64]
    goal: NDArray[np.int8]
    power_factor: Float64

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | Int64) -> "GridJobs":
        """Return the jobs that the mask or the indices select."""
        return GridJobs(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


UNLESS_GIVEN = {
    "submit_s": 0,
    "home": 0,
    "user": UNKNOWN,
    "project": UNKNOWN,
    "application": UNKNOWN,
    "data_mb": 0.0,
    "latest_end_s": NEVER,
    "features": 0,
    "goal": Goal.UNSAID,
    "power_factor": 1.0,
}
TYPES = {"data_mb": np.float64, "power_factor": np.float64, "features": np.uint64, "goal": np.int8}


def grid_jobs(*, job_id: object, cores: object, estimate_s: object, **columns: object) -> GridJobs:
    """Return jobs from columns, each an array, a list or one value for all; those not given hold for nobody."""
    given = UNLESS_GIVEN | columns | {"job_id": job_id, "cores": cores, "estimate_s": estimate_s}
    count = len(np.atleast_1d(np.asarray(job_id)))
    return GridJobs(
        **{
            name: np.broadcast_to(np.asarray(column, TYPES.get(name, np.int64)), count).copy()
            for name, column in given.items()
        }
    )
