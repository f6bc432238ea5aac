"""The federation as the broker knows it: its sites, their latest reports, the jobs of owners, and where a job would go.

A job has the script, its requests, and the owner's preferences. The poller keeps the reports of all sites in a file, so
that a command that only chooses need not poll every site. The jobs that sites have got count for the next choice; the
ledger has them, with the states of a submission.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpeak.display import utc_text
from offpeak.errors import BadInput
from offpeak.files import replacing
from offpeak.ledger.rows import SubmissionRecord
from offpeak.model.units import parse_data_mb
from offpeak.plugin.federation.cycle import GridRules, SiteChoice, choice_json
from offpeak.plugin.federation.job_script import PBS, SLURM, ScriptRequest, parse_script
from offpeak.plugin.federation.jobs import BY_WEIGHTS, GOALS, PlacementRequest, find_home, policy_for, request_columns
from offpeak.plugin.federation.live_cycle import (
    DEFAULT_RULES,
    ON_THE_WAY_S,
    CycleChoices,
    SentJob,
    SiteReply,
    choose_together,
    currency_of,
)
from offpeak.plugin.federation.site_report import parse_report, report_json
from offpeak.plugin.federation.sites import Grid, Site
from offpeak.plugin.federation.sites_file import read_sites
from offpeak.plugin.scheduler.batch import JobSubmission
from offpeak.settings.broker import BY_GOAL, TOGETHER, BrokerSettings
from offpeak.text import did_you_mean

if TYPE_CHECKING:
    from offpeak.ledger.submissions import SiteSubmissions

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
    data_mb: float = 0.0
    data_at: str = ""


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
        """The hash of script, arguments and preferences, which identifies the job."""
        preferences = vars(self.preferences)
        # Keys of jobs without data are those of versions that knew no data.
        known = (
            preferences if self.preferences.data_mb else {k: preferences[k] for k in preferences if k[:5] != "data_"}
        )
        values = [self.script, list(self.arguments), *known.values()]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def keys(self, by: str, now_unix_s: float) -> tuple[str, str]:
        """Return the key of this job of that owner in this slot of time, and the key in the slot before."""
        slot = int(now_unix_s) // SLOT_S
        now, before = (hashlib.sha256(f"{self.digest} {by} {start}".encode()).hexdigest() for start in (slot, slot - 1))
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
    """Return the job. Raises BadInput if script and preferences limit no run time, or for an unreadable script."""
    script_request = parse_script(script)
    limit_s = preferences.limit_s or script_request.limit_s
    if limit_s is None:
        hint = "add #SBATCH --time=... or #PBS -l walltime=..., or give --time 2h"
        raise BadInput("the job has no time limit", hint=hint)
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
        # Cores that the owner gives replace those of the script, and its parts with them.
        request=None if preferences.cores else script_request.request,
        submit=next((program for program, lines in LINES_OF.items() if lines == script_request.system), ""),
        data_mb=preferences.data_mb,
        data_at=preferences.data_at,
    )
    return BrokerJob(script, name, arguments, script_request, preferences, request)


def make_preferences(
    policy: str,
    *,
    goal: str | None,
    data: str | None,
    data_at: str | None,
    latest_end_s: int | None = None,
    cores: int | None = None,
    limit_s: int | None = None,
    application: str | None = None,
) -> JobPreferences:
    """Return the preferences of options as typed, None for those not given. Raises BadInput for an error in them.

    Without a goal the weights decide if `policy` places jobs together, else CO2.
    """
    if data_at is not None and data is None:
        raise BadInput(f"--data-at {data_at}: how much data?", hint=f"--data 20GB --data-at {data_at}")
    if goal is None:
        goal = BY_WEIGHTS if policy in TOGETHER else JobPreferences.goal
    elif goal and goal not in GOALS:
        raise BadInput(f"--goal {goal}: is not a goal", hint=did_you_mean(goal, GOALS))
    data_mb = 0.0 if data is None else parse_data_mb(data)
    return JobPreferences(
        goal, latest_end_s, cores, limit_s, application=application, data_mb=data_mb, data_at=data_at or ""
    )


def job_json(job: BrokerJob) -> dict[str, Any]:
    """Return the job as JSON, from which `stored_job` makes it again."""
    return {
        "script": job.script,
        "name": job.name,
        "arguments": list(job.arguments),
        "preferences": dict(vars(job.preferences)),
    }


def stored_job(stored: Mapping[str, Any], grid: Grid, now_s: int) -> BrokerJob:
    """Return the job of `job_json`. Raises BadInput if the sites no longer know a feature or a site that it names."""
    preferences = JobPreferences(**stored["preferences"])
    job = make_broker_job(
        stored["script"], stored["name"], tuple(stored["arguments"]), preferences=preferences, grid=grid
    )
    request_columns((job.request,), grid, now_s)
    return job


def check_key(key: str) -> str:
    """Return the key. Raises BadInput for a key that would not survive in the comment of a job."""
    if not _KEY.fullmatch(key):
        raise BadInput(f"--key {key!r}: is not a key", hint="letters, digits, dots, - and _, 64 at most")
    return key


WAITING, TRIED, TAKEN, FAILED, CANCELLED = "waiting", "tried", "taken", "failed", "cancelled"

SNAPSHOTS_FILE = "federation.json"


@dataclass(frozen=True)
class FederationSnapshot:
    """The last `replies` of sites, and the jobs that they were `sent`."""

    replies: Mapping[str, SiteReply]
    sent: tuple[SentJob, ...] = ()


def write_snapshots(folder: Path, kept: FederationSnapshot, *, at_unix_s: float) -> None:
    """Replace the file in the state folder. Raises CannotWrite if that fails."""
    sites = {
        name: {"said": reply.report and report_json(reply.report), "trouble": reply.problem}
        for name, reply in kept.replies.items()
    }
    sent = [vars(job) for job in kept.sent]
    with replacing(folder / SNAPSHOTS_FILE) as file:
        file.write(json.dumps({"at_unix_s": at_unix_s, "sites": sites, "sent": sent}).encode())


def read_snapshots(folder: Path, *, not_before_unix_s: float) -> FederationSnapshot | None:
    """Return the content of the file, None if there is no file, if it is too old, or if it cannot be parsed."""
    try:
        content = json.loads((folder / SNAPSHOTS_FILE).read_bytes())
        if content["at_unix_s"] < not_before_unix_s:
            return None
        replies = {name: _parse_report(site["said"], str(site["trouble"])) for name, site in content["sites"].items()}
        return FederationSnapshot(replies, tuple(SentJob(**job) for job in content["sent"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_report(content: object, problem: str) -> SiteReply:
    return SiteReply(None if content is None else parse_report(content), problem)


@dataclass(frozen=True)
class Federation:
    """The sites of `grid`, their last `replies`, and the jobs that they were `sent`, None if these were not read.

    `policy` chooses, by the `rules`; `turn` is the site that is next by turns.
    """

    grid: Grid
    replies: Mapping[str, SiteReply]
    stale_s: float
    sent: tuple[SentJob, ...] | None = None
    policy: str = BY_GOAL
    rules: GridRules = DEFAULT_RULES
    turn: int = 0
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def choose(self, request: PlacementRequest, *, without: Mapping[str, str]) -> SiteChoice:
        """Return a job's site, none of those in `without`. Raises BadInput for a latest finish that has passed."""
        if request.latest_end_s is not None and request.latest_end_s <= int(self.clock()):
            raise BadInput("--latest-finish has passed", hint="give a later time, or leave it")
        return self._choose((request,), (without,), policy_for(request)).choices[0]

    def choose_together(
        self, requests: Sequence[PlacementRequest], *, without: Sequence[Mapping[str, str]]
    ) -> CycleChoices:
        """Return the sites for the jobs of a cycle; jobs that wait since another policy was set go by their goals."""
        return self._choose(requests, without, "eca-queue")

    def _choose(
        self, requests: Sequence[PlacementRequest], without: Sequence[Mapping[str, str]], by_goal: str
    ) -> CycleChoices:
        return choose_together(
            requests,
            self.grid,
            self.replies,
            policy=self.policy if self.policy in TOGETHER else by_goal,
            now_s=int(self.clock()),
            stale_s=self.stale_s,
            sent=self.sent or (),
            without=without,
            rules=self.rules,
            turn=self.turn,
        )

    @property
    def currency(self) -> str:
        """The currency of the sites that can be chosen."""
        return currency_of(self.grid, self.replies, now_s=int(self.clock()))


def make_federation(
    settings: BrokerSettings, grid: Grid, replies: Mapping[str, SiteReply], sent: tuple[SentJob, ...] | None = None
) -> Federation:
    """Return the federation that chooses as the settings say."""
    rules = GridRules(weights=settings.weights, queue_limit=settings.queue_limit)
    return Federation(grid, replies, settings.stale_s, sent, settings.policy, rules)


def federation_without_reports(settings: BrokerSettings) -> Federation:
    """Return the federation without replies of its sites, for commands that only follow jobs."""
    return make_federation(settings, read_sites(settings.sites), {})


ReadSubmissions = Callable[[Sequence[str], float, Mapping[str, float]], "SiteSubmissions"]
"""Reads the submissions of a ledger, as `Ledger.given` does."""
COUNTED_STATES = (TRIED, TAKEN, CANCELLED)
"""States of jobs that a site may have run."""


def add_sent_jobs(federation: Federation, given: ReadSubmissions) -> Federation:
    """Return the federation with the jobs of its sites; older ones are summed up for each site and project."""
    recent_s = federation.clock() - federation.stale_s - ON_THE_WAY_S
    periods_s = {
        site.name: float(site.allocations_since_s or 0)
        for site in federation.grid.sites
        if site.allocations is not None
    }
    found = given(COUNTED_STATES, recent_s, periods_s)
    older = [
        SentJob(site, periods_s[site], cores=1, held_s=core_s, project=project, there=False)
        for (site, project), core_s in sorted(found.core_s.items())
    ]
    return replace(federation, sent=(*older, *map(sent_job_of, found.recent)))


def sent_job_of(row: SubmissionRecord) -> SentJob:
    """Return the job of a row; a row of an older version has no figures."""
    expected = row.answer.get("expected") or {}
    return SentJob(
        row.site,
        row.tried_unix_s,
        int(expected.get("cores", 0)),
        float(row.answer.get("held_s", expected.get("run_s", 0))),
        str(row.answer.get("project", "")),
        there=row.state != CANCELLED,
    )


def make_choice(federation: Federation, job: BrokerJob) -> dict[str, Any]:
    """Return the choice as JSON of `choice_json`. Raises BadInput for a feature or an application that no site has."""
    choice = federation.choose(job.request, without=job.not_at(federation.grid))
    return choice_json(choice, now_s=int(time.time()), currency=federation.currency)
