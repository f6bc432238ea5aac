"""A job as its owner hands it over: the script, its requests, and the owner's preferences for the federation."""

import hashlib
import json
import re
from dataclasses import dataclass

from offpeak.errors import BadInput
from plugin.federation.choice import SiteChoice, time_text
from plugin.federation.job_script import PBS, SLURM, ScriptRequest, parse_script
from plugin.federation.jobs import PlacementRequest, find_home
from plugin.federation.sites import Grid, Site
from plugin.scheduler.batch import JobSubmission

LINES_OF = {"sbatch": SLURM, "qsub": PBS}
SLOT_S = 600
"""The same job of the same owner within so long is one job, unless another key is given."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class JobPreferences:
    """What the owner says beside the script; None leaves it to the script."""

    goal: str = "co2"
    latest_end_s: int | None = None
    cores: int | None = None
    limit_s: int | None = None
    application: str | None = None


@dataclass(frozen=True)
class BrokerJob:
    """A script with its `name` and arguments, what it `asks`, and the `request` that sites are chosen by."""

    script: str
    name: str
    arguments: tuple[str, ...]
    asks: ScriptRequest
    wishes: JobPreferences
    request: PlacementRequest

    @property
    def digest(self) -> str:
        """What tells it from other jobs: script, arguments and wishes."""
        words = [self.script, list(self.arguments), *vars(self.wishes).values()]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def keys(self, by: str, now_unix_s: float) -> tuple[str, str]:
        """Return the key of this job of that owner in this slot of time, and in the one before."""
        slot = int(now_unix_s) // SLOT_S
        now, before = (hashlib.sha256(f"{self.digest} {by} {each}".encode()).hexdigest() for each in (slot, slot - 1))
        return now[:20], before[:20]

    def not_at(self, grid: Grid) -> dict[str, str]:
        """Return the sites that cannot be given the script, and why."""
        if not self.arguments:
            return {}
        by_qsub = [site.name for site in grid.sites if site.reach is not None and site.reach.submit == "qsub"]
        return dict.fromkeys(by_qsub, "qsub hands scripts no arguments")

    def errand(self, key: str, site: Site, choice: SiteChoice) -> JobSubmission:
        """Return what is submitted at the chosen site: where its cores are slower, with a longer limit."""
        assert site.reach is not None
        assert choice.chosen is not None
        latest_end_s = self.wishes.latest_end_s
        own_words = self.asks.system == LINES_OF[site.reach.submit] and self.wishes.cores is None
        return JobSubmission(
            key=key,
            script=self.script,
            name="" if self.asks.name else self.name,
            arguments=self.arguments,
            limit_s=max(self.request.limit_s, int(-(-choice.chosen.runtime_s // 1))),
            cores=None if own_words else self.request.cores,
            cores_per_node=site.cores_per_unit if site.cores_per_unit > 1 else self.request.cores,
            comment=self.asks.comment,
            variables=self.asks.variables,
            latest_finish="" if latest_end_s is None else time_text(latest_end_s),
        )


def make_broker_job(
    script: str, name: str, arguments: tuple[str, ...], *, wishes: JobPreferences, grid: Grid
) -> BrokerJob:
    """Return the parcel; BadInput where neither script nor wishes say how long it runs, or the script is none."""
    asks = parse_script(script)
    limit_s = wishes.limit_s or asks.limit_s
    if limit_s is None:
        hint = "add #SBATCH --time=... or #PBS -l walltime=..., or give --time 2h"
        raise BadInput("nothing says how long the job may run", hint=hint)
    whole_nodes = (asks.nodes or 1) * grid.sites[find_home(grid)].cores_per_unit
    cores = wishes.cores or asks.cores or whole_nodes
    application = wishes.application or ""
    request = PlacementRequest(
        cores=cores,
        limit_s=limit_s,
        goal=wishes.goal,
        latest_end_s=wishes.latest_end_s,
        project=asks.project,
        features=asks.features,
        application=application,
    )
    return BrokerJob(script, name, arguments, asks, wishes, request)


def check_key(key: str) -> str:
    """Return the key; BadInput for one that would not survive in a job's comment."""
    if not _KEY.fullmatch(key):
        raise BadInput(f"--key {key!r}: is no key", hint="letters, digits, dots, - and _, 64 at most")
    return key
