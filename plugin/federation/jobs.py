"""The jobs for which sites are chosen: the columns of a scheduling cycle, the request of one job, and its script.

Columns and request hold the preferences of the owner too. Of a script the lines `#SBATCH` of Slurm and `#PBS` of Torque
and OpenPBS are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.request import Request
from offpeak.model.snapshot import NEVER
from offpeak.plugin.federation.sites import LOCAL, UNKNOWN, Grid

TYPES = {"data_mb": np.float64, "power_factor": np.float64, "features": np.uint64, "goal": np.int8}

BY_WEIGHTS = ""
"""The goal of a job whose owner names none where the weights of the broker decide."""


class Goal(IntEnum):
    """The figure that a job's owner wants to minimise; UNSPECIFIED leaves it to the policy."""

    UNSPECIFIED = -1
    TIME = 0
    COST = 1
    CO2 = 2
    ENERGY = 3


@dataclass(frozen=True, eq=False)
class GridJobs:
    """n jobs in the order of their submission.

    `cores` is the request: in a grid whose sites all have one core per unit, these are units of any kind, such as
    nodes. `estimate_s` is the user's run time at the site `home`. `project` and `application` are numbers of the
    grid, UNKNOWN for others. `data_mb` moves with the job from the site `data_at`. `latest_end_s` [Unix s] is the
    green SLA's latest finish, NEVER without one. `features` are masks of the grid, `goal` is a `Goal`. `power_factor`
    is the job's draw as a multiple of the site's draw per unit.
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
    data_at: Int64
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
    "goal": Goal.UNSPECIFIED,
    "power_factor": 1.0,
}


def grid_jobs(*, job_id: object, cores: object, estimate_s: object, **columns: object) -> GridJobs:
    """Return jobs from columns, each an array, a list or one value, else defaults; data are at home by default."""
    given = UNLESS_GIVEN | columns | {"job_id": job_id, "cores": cores, "estimate_s": estimate_s}
    given.setdefault("data_at", given["home"])
    count = len(np.atleast_1d(np.asarray(job_id)))
    return GridJobs(
        **{
            name: np.broadcast_to(np.asarray(column, TYPES.get(name, np.int64)), count).copy()
            for name, column in given.items()
        }
    )


GOALS = {"co2": Goal.CO2, "cost": Goal.COST, "energy": Goal.ENERGY, "time": Goal.TIME}


@dataclass(frozen=True)
class PlacementRequest:
    """A job of `cores` cores with a time limit of `limit_s` at home.

    `goal` is a key of GOALS or BY_WEIGHTS, `latest_end_s` [Unix s] the green SLA's latest finish. `features` are
    required features, `application` is a name for which sites may have a rank, "" if unknown. `request` is what the
    job needs of nodes, None if only its cores are known; its partitions are those of sites whose jobs are submitted
    by `submit`. `data_mb` moves with the job from the site `data_at`, "" for its home.
    """

    cores: int
    limit_s: int
    goal: str = "co2"
    latest_end_s: int | None = None
    project: str = ""
    features: tuple[str, ...] = ()
    application: str = ""
    request: Request | None = None
    submit: str = ""
    data_mb: float = 0.0
    data_at: str = ""


def find_home(grid: Grid) -> int:
    """Return the site at which estimates hold and which is first among equals: where the broker is, else the first."""
    local = (at for at, site in enumerate(grid.sites) if site.reach is not None and site.reach.way == LOCAL)
    return next(local, 0)


def policy_for(request: PlacementRequest) -> str:
    """Return the name of the policy that chooses: by the latest finish, by time alone, else by goal and queues."""
    if request.latest_end_s is not None:
        return "eca-sla"
    return "fastest" if request.goal == "time" else "eca-queue"


def request_columns(requests: Sequence[PlacementRequest], grid: Grid, now_s: int) -> GridJobs:
    """Return a cycle's jobs in order, from 1. Raises BadInput for features, applications or data that no site has."""
    home = find_home(grid)
    projects = {name: number for number, name in enumerate(grid.projects)}
    return grid_jobs(
        job_id=range(1, len(requests) + 1),
        cores=[each.cores for each in requests],
        estimate_s=[each.limit_s for each in requests],
        submit_s=now_s,
        home=home,
        project=[projects.get(each.project, UNKNOWN) for each in requests],
        latest_end_s=[NEVER if each.latest_end_s is None else each.latest_end_s for each in requests],
        features=[grid.feature_mask(each.features) for each in requests],
        goal=[GOALS.get(each.goal, Goal.UNSPECIFIED) for each in requests],
        application=[grid.application_number(each.application) if each.application else UNKNOWN for each in requests],
        data_mb=[each.data_mb for each in requests],
        data_at=[grid.index(each.data_at) if each.data_at else home for each in requests],
    )
