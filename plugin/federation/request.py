"""One job that a site is to be chosen for: what it asks for, and what its owner wants of the grid."""

from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.snapshot import NEVER
from offpeak.text import did_you_mean
from plugin.federation.grid import UNKNOWN, Grid
from plugin.federation.jobs import Goal, GridJobs, grid_jobs
from plugin.federation.reach import LOCAL

GOALS = {"co2": Goal.CO2, "cost": Goal.COST, "energy": Goal.ENERGY, "time": Goal.TIME}
ONE_JOB = 1


@dataclass(frozen=True)
class Request:
    """A job of so many `cores` that its owner lets run for `limit_s` at home.

    `goal` is a key of GOALS, `latest_end_s` [Unix s] the green SLA's latest finish. `features` are what it insists on,
    `application` is what sites may have a rank for, "" where its owner does not say.
    """

    cores: int
    limit_s: int
    goal: str = "co2"
    latest_end_s: int | None = None
    project: str = ""
    features: tuple[str, ...] = ()
    application: str = ""


def goal_named(text: str) -> str:
    """Return the goal of that name; BadInput if there is none."""
    if text not in GOALS:
        raise BadInput(f"--goal {text}: is no goal", hint=did_you_mean(text, GOALS))
    return text


def home_of(grid: Grid) -> int:
    """Return the site at which estimates hold and which is first among equals: where the broker is, else the first."""
    local = (at for at, site in enumerate(grid.sites) if site.reach is not None and site.reach.way == LOCAL)
    return next(local, 0)


def policy_for(request: Request) -> str:
    """Return the name of the policy that chooses: by the latest finish, by time alone, else by goal and queues."""
    if request.latest_end_s is not None:
        return "eca-sla"
    return "fastest" if request.goal == "time" else "eca-queue"


def column_of(request: Request, grid: Grid, now_s: int) -> GridJobs:
    """Return the job as the only one of a cycle; BadInput for a feature or an application that no site has."""
    project = grid.projects.index(request.project) if request.project in grid.projects else UNKNOWN
    return grid_jobs(
        job_id=ONE_JOB,
        cores=request.cores,
        estimate_s=request.limit_s,
        submit_s=now_s,
        home=home_of(grid),
        project=project,
        latest_end_s=NEVER if request.latest_end_s is None else request.latest_end_s,
        features=grid.feature_mask(request.features),
        goal=GOALS[request.goal],
        application=grid.application_number(request.application) if request.application else UNKNOWN,
    )
