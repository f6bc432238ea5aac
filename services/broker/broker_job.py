"""A job as its owner hands it over: the script, its requests, and the owner's preferences for the federation."""

import hashlib
import json
import re
from dataclasses import dataclass

from offpeak.display import utc_text
from offpeak.errors import BadInput
from plugin.federation.choice import SiteChoice
from plugin.federation.job_script import PBS, SLURM, ScriptRequest, parse_script
from plugin.federation.jobs import PlacementRequest, find_home
from plugin.federation.sites import Grid, Site
from plugin.scheduler.batch import JobSubmission

LINES_OF = {"sbatch": SLURM, "qsub": PBS}
SLOT_S = 600
"""The same job of the same owner within this time is one job, unless it has another key."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class JobPreferences:
    """The preferences that the owner gives beside the script; None leaves a value to the script."""

    goal: str = "co2"
    latest_end_s: int | None = None
    cores: int | None = None
    limit_s: int | None = None
    application: str | None = None


@dataclass(frozen=True)
class BrokerJob:
    """A script with its `name` and arguments, its own requests, and the `request` by which a site is chosen."""

    script: str
    name: str
    arguments: tuple[str, ...]
    script_request: ScriptRequest
    preferences: JobPreferences
    request: PlacementRequest

    @property
    def digest(self) -> str:
        """The hash of script, arguments and preferences, which tells the job from others."""
        values = [self.script, list(self.arguments), *vars(self.preferences).values()]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def keys(self, by: str, now_unix_s: float) -> tuple[str, str]:
        """Return the key of this job of that owner in this slot of time, and the key in the slot before."""
        slot = int(now_unix_s) // SLOT_S
        now, before = (hashlib.sha256(f"{self.digest} {by} {each}".encode()).hexdigest() for each in (slot, slot - 1))
        return now[:20], before[:20]

    def not_at(self, grid: Grid) -> dict[str, str]:
        """Return the sites that cannot run the script, with the reasons."""
        if not self.arguments:
            return {}
        by_qsub = [site.name for site in grid.sites if site.reach is not None and site.reach.submit == "qsub"]
        return dict.fromkeys(by_qsub, "qsub hands scripts no arguments")

    def make_submission(self, key: str, site: Site, choice: SiteChoice) -> JobSubmission:
        """Return the submission for the chosen site, with a longer limit if its cores are slower."""
        assert site.reach is not None
        assert choice.chosen is not None
        latest_end_s = self.preferences.latest_end_s
        same_system = self.script_request.system == LINES_OF[site.reach.submit] and self.preferences.cores is None
        return JobSubmission(
            key=key,
            script=self.script,
            name="" if self.script_request.name else self.name,
            arguments=self.arguments,
            limit_s=max(self.request.limit_s, int(-(-choice.chosen.runtime_s // 1))),
            cores=None if same_system else self.request.cores,
            cores_per_node=site.cores_per_unit if site.cores_per_unit > 1 else self.request.cores,
            comment=self.script_request.comment,
            variables=self.script_request.variables,
            latest_finish="" if latest_end_s is None else utc_text(latest_end_s),
        )


def make_broker_job(
    script: str, name: str, arguments: tuple[str, ...], *, preferences: JobPreferences, grid: Grid
) -> BrokerJob:
    """Return the job. BadInput if neither script nor preferences limit its run time, or for an unreadable script."""
    script_request = parse_script(script)
    limit_s = preferences.limit_s or script_request.limit_s
    if limit_s is None:
        hint = "add #SBATCH --time=... or #PBS -l walltime=..., or give --time 2h"
        raise BadInput("nothing says how long the job may run", hint=hint)
    whole_nodes = (script_request.nodes or 1) * grid.sites[find_home(grid)].cores_per_unit
    cores = preferences.cores or script_request.cores or whole_nodes
    application = preferences.application or ""
    request = PlacementRequest(
        cores=cores,
        limit_s=limit_s,
        goal=preferences.goal,
        latest_end_s=preferences.latest_end_s,
        project=script_request.project,
        features=script_request.features,
        application=application,
    )
    return BrokerJob(script, name, arguments, script_request, preferences, request)


def check_key(key: str) -> str:
    """Return the key. BadInput for a key that would not survive in the comment of a job."""
    if not _KEY.fullmatch(key):
        raise BadInput(f"--key {key!r}: is no key", hint="letters, digits, dots, - and _, 64 at most")
    return key
