"""Slurm behind the port of all schedulers: `SlurmScheduler`. It reads jobs, nodes and reservations in one of four ways.

* As text, which all versions of Slurm's commands print in the same way.
* As the JSON of the same commands.
* From slurmrestd, with a token from a file.
* From pyslurm, if it is installed and made for this version of Slurm: pyslurm_child.py, a separate program, prints its
  jobs and nodes.
"""

import base64
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from offpeak.errors import BadSetting
from offpeak.installation import install_hint
from offpeak.machines.credentials import Secret, read_secret
from offpeak.model.limits import SiteLimits
from offpeak.model.orders import NodeChange
from offpeak.plugin.contract.slurm_rights import SlurmRights, current_rights, read_rights
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, Reservation
from offpeak.plugin.scheduler.port import NodeUses, Ranking, RequeuePermit, SchedulerTraits, SchedulerView
from offpeak.plugin.slurm import changes
from offpeak.plugin.slurm.changes import ScontrolOptions
from offpeak.plugin.slurm.commands import (
    NOT_SHOWN,
    NOT_SHOWN_HINT,
    CannotAskSlurm,
    SlurmIsSilent,
    ask,
    parse_config,
    rows_of_squeue,
    scontrol_shows_jobs,
)
from offpeak.plugin.slurm.configuration import order_wait_s, read_limits, read_load, traits_of_text
from offpeak.plugin.slurm.jobs import (
    ARRAYS_ARGUMENTS,
    FACTORS_ARGUMENTS,
    jobs_of_json,
    jobs_of_text,
    keep_unlisted,
    parse_task_limits,
    squeue_arguments,
    with_factors,
)
from offpeak.plugin.slurm.nodes import (
    NODES_ARGUMENTS,
    RESERVATIONS_ARGUMENTS,
    ClosedReasons,
    find_node_uses,
    nodes_of_json,
    nodes_of_text,
    reservations_of_json,
    reservations_of_text,
    with_suspended_jobs,
)
from offpeak.settings.agent import SlurmSettings

if TYPE_CHECKING:
    from offpeak.web_session import WebSession

LIMITS_LAST_S = 600.0
"""Limits of arrays, licences and QOS are read less often than jobs and slurm.conf."""
RIGHTS_LAST_S, QOS_AGAIN_S = 900.0, 60.0
"""So long the QOS and factors count that were last known, where sacctmgr or sprio fails; then no job changes places.

sacctmgr is then run again after QOS_AGAIN_S."""

SQUEUE_JSON_ARGUMENTS = ("--all", "--local", "--states=all", "--json")
# From this version on scontrol prints JSON too, and sinfo's JSON no longer has single nodes.
SCONTROL_SPEAKS_JSON = (23, 2)

_VERSION = re.compile(rb"(\d+)\.(\d+)")

TOKEN_HINT = "write a new one: (umask 077; scontrol token lifespan=31536000 | cut -d= -f2 > {path})"
DAEMON_HINT = "check whether slurmrestd runs at {url}, and read its log"

_JOBS_PATH = re.compile(r"/slurm/(v0\.0\.(\d+))/jobs/?")

CHILD = Path(__file__).with_name("pyslurm_child.py")

TRES = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
"""Fields that pyslurm lacks: its tres_per_node is None for a GRES, its tres_per_task an object."""
TRES_ARGUMENTS = (
    *("--all", "--local", "--noconvert", "--array", "--states=all"),
    "--Format=JobID:|," + ":|,".join(name.replace("_", "-") for name in TRES) + ":",
)

READ_TEXT_HINT = 'write read = "text" below [slurm]'

FIRST_ON_INDEX = (25, 11)
"""The oldest version of pyslurm on the package index."""

_RELEASE = re.compile(r"(\d+)\.(\d+)")


class SlurmSnapshot(NamedTuple):
    """All jobs, also those that have just ended, all nodes and all reservations."""

    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    reservations: tuple[Reservation, ...]


class SlurmScheduler:
    """Slurm, read by the method of the settings and changed by scontrol; `clock` returns Unix seconds."""

    changes_lists = True

    def __init__(self, settings: SlurmSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._timeout_s = float(settings.timeout_s)
        self._read = _reader(settings)
        self._scontrol = ScontrolOptions(settings.command or (), self._timeout_s)
        self._traits: SchedulerTraits | None = None
        self._rights: SlurmRights | None = None
        self._limits, self._limits_s, self._qos_s = SiteLimits(), float("-inf"), float("-inf")
        self._factors, self._factors_s = b"", float("-inf")
        self._reasons = ClosedReasons()

    def traits(self) -> SchedulerTraits:
        """Return the settings of slurm.conf, as slurmctld has read them."""
        config = ask("scontrol", "show", "config", timeout_s=self._timeout_s)
        partitions = ask("scontrol", "--all", "--oneliner", "show", "partitions", timeout_s=self._timeout_s)
        self._scontrol = self._scontrol._replace(order_s=order_wait_s(config))
        rights, now_s = read_rights(parse_config(config), timeout_s=self._timeout_s), self._clock()
        if not 0 <= now_s - self._limits_s < (QOS_AGAIN_S if self._limits.qos_problem else LIMITS_LAST_S):
            limits = read_limits(config, timeout_s=self._timeout_s)
            if not limits.qos_problem:
                self._qos_s = now_s
            elif 0 <= now_s - self._qos_s < RIGHTS_LAST_S:
                limits = replace(limits, qos=self._limits.qos)
            self._limits, self._limits_s = limits, now_s
        self._rights = rights
        self._traits = replace(traits_of_text(config, partitions, rights), limits=self._limits)
        return self._traits

    def view(self) -> SchedulerView:
        """Return all jobs, also those that ended within MinJobAge, all nodes and all reservations."""
        at_s = int(self._clock())
        snapshot = self._read_all()
        rights = self._rights or current_rights(self._timeout_s)
        rights.require_all_jobs()
        jobs, problem = snapshot.jobs, self._limits.qos_problem
        if self._traits and self._traits.ranking is Ranking.OFFSET:
            jobs, factors_problem = self._with_factors(jobs, at_s)
            problem = "; ".join(filter(None, (problem, factors_problem)))
        if self._limits.qos_problem and not self._limits.qos:
            jobs = keep_unlisted(jobs, b"", at_s)
        snapshot = snapshot._replace(jobs=jobs)
        nodes = self._reasons.restore(snapshot.nodes)
        snapshot = snapshot._replace(nodes=with_suspended_jobs(nodes, snapshot.jobs))
        shared_user = rights.user if rights.is_daemons else ""
        return SchedulerView(at_s, *snapshot, read_load(shared_user, timeout_s=self._timeout_s), problem)

    def _read_all(self) -> SlurmSnapshot:
        """Return the snapshot. What PrivateData makes Slurm refuse is an error that says what to grant."""
        try:
            snapshot = self._read()
            # A job may have been submitted between the two answers.
            if not snapshot.jobs and scontrol_shows_jobs(self._timeout_s) and not (snapshot := self._read()).jobs:
                raise CannotAskSlurm(NOT_SHOWN, hint=NOT_SHOWN_HINT)
            return snapshot
        except SlurmIsSilent:
            raise
        except CannotAskSlurm as problem:
            rights = current_rights(self._timeout_s)
            if not rights.hidden_data:
                raise
            raise CannotAskSlurm(f"{problem}: {rights.hidden_data}", hint=rights.hint) from None

    def _with_factors(self, jobs: tuple[Job, ...], now_s: int) -> tuple[tuple[Job, ...], str]:
        """Return the jobs with the factors of their priorities, and why these are not those of now.

        Then those last known count. A job without any keeps its place.
        """
        try:
            answer = ask("sprio", *FACTORS_ARGUMENTS, timeout_s=self._timeout_s)
        except SlurmIsSilent:
            raise
        except CannotAskSlurm as problem:
            why = f"{problem}; {problem.hint}"
        else:
            if answer.strip() or not any(job.plain and job.is_waiting(now_s) for job in jobs):
                self._factors, self._factors_s = answer, now_s
                return with_factors(jobs, answer), ""
            why = "sprio: lists none of the waiting jobs; `sprio` as the agent's user must list them"
        known = self._factors if 0 <= now_s - self._factors_s < RIGHTS_LAST_S else b""
        return keep_unlisted(with_factors(jobs, known), known, now_s), why

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        """Return why each of these nodes is not free, "" if it is."""
        return find_node_uses(nodes, partial(current_rights, self._timeout_s), timeout_s=self._timeout_s)

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities under priority/basic, else nice values, by the last known traits; return why not."""
        # The values were computed for these traits; the traits of now may differ.
        traits = self._traits or self.traits()
        return changes.rank_jobs(values, traits.ranking, self._scontrol)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set when each job may start at the earliest, 0 for now; return why not, by job."""
        return changes.defer_jobs(begin_s, self._scontrol)

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return what Slurm shows of each of these running batch jobs."""
        return changes.read_requeue_permits(jobs, self._timeout_s)

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """Send each job's script its signal; return why not, by job."""
        return changes.signal_jobs(signals, self._scontrol)

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """Requeue these running jobs; return why not, by job."""
        return changes.requeue_jobs(names, self._scontrol)

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write our part of each job's AdminComment, "" removes it; return why not, by job."""
        return changes.notify_owners(comments, self._scontrol)

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing: slurmctld starts one itself when a node registers, and looks at begin times in each."""
        return {}

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Order the change of these nodes; return why not, by node. Raises ListRefused."""
        return changes.change_nodes(nodes, change, reason=reason, scontrol=self._scontrol, reasons=self._reasons)


def _reader(settings: SlurmSettings) -> Callable[[], SlurmSnapshot]:
    timeout_s = float(settings.timeout_s)
    match settings.read:
        case "json":
            return lambda: read_json(timeout_s)
        case "rest":
            return SlurmRest(settings.rest_url, settings.rest_token, timeout_s=timeout_s).read
        case "pyslurm":
            return lambda: read_pyslurm(timeout_s)
        case _:
            return TextReader(timeout_s).read


class TextReader:
    """Reads the text of the commands.

    How many tasks of an array may run at once needs the whole queue a second time: it is read for new arrays, and again
    after LIMITS_LAST_S.
    """

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s, self._clock = timeout_s, clock
        self._jobs = dict[bytes, Job | None]()
        self._limited, self._limits, self._limits_s = frozenset[str](), dict[str, int](), 0.0

    def read(self) -> SlurmSnapshot:
        """Return jobs, nodes and reservations. Raises CannotAskSlurm if a command fails."""
        # No user can guess this text and write records of other jobs into a job's name.
        end = f"\x1e{secrets.token_hex(8)}"
        jobs = self._with_limits(jobs_of_text(self._ask("squeue", *squeue_arguments(end)), end, self._jobs))
        nodes = nodes_of_text(self._ask("scontrol", *NODES_ARGUMENTS))
        return SlurmSnapshot(jobs, nodes, reservations_of_text(self._ask("scontrol", *RESERVATIONS_ARGUMENTS)))

    def _with_limits(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        arrays = {job.job_id for job in jobs if job.is_array and job.state is JobState.PENDING}
        if not arrays <= self._limited or (arrays and self._clock() - self._limits_s > LIMITS_LAST_S):
            self._limits = parse_task_limits(self._ask("squeue", *ARRAYS_ARGUMENTS))
            self._limited, self._limits_s = frozenset(arrays), self._clock()
        if not (limits := self._limits):
            return jobs
        return tuple(
            job._replace(task_limit=limits[job.job_id]) if job.is_array and job.job_id in limits else job
            for job in jobs
        )

    def _ask(self, program: str, *arguments: str) -> bytes:
        return ask(program, *arguments, timeout_s=self._timeout_s)


def read_json(timeout_s: float) -> SlurmSnapshot:
    """Return jobs, nodes and reservations. Raises CannotAskSlurm if a command fails, or its answer lists an error."""
    jobs = jobs_of_json(ask("squeue", *SQUEUE_JSON_ARGUMENTS, timeout_s=timeout_s), source="squeue --json")
    if slurm_version(timeout_s) < SCONTROL_SPEAKS_JSON:
        nodes = nodes_of_json(ask("sinfo", "--all", "--json", timeout_s=timeout_s), source="sinfo --json")
        reservations = ask("scontrol", *RESERVATIONS_ARGUMENTS, timeout_s=timeout_s)
        return SlurmSnapshot(jobs, nodes, reservations_of_text(reservations))
    return SlurmSnapshot(
        jobs,
        nodes_of_json(_show_json("nodes", timeout_s), source="scontrol show nodes --json"),
        reservations_of_json(_show_json("reservations", timeout_s), source="scontrol show reservations --json"),
    )


def slurm_version(timeout_s: float) -> tuple[int, int]:
    """Return the version of Slurm's commands, 22.05 as (22, 5); (0, 0) if sinfo does not print it."""
    match = _VERSION.search(ask("sinfo", "--version", timeout_s=timeout_s))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _show_json(what: str, timeout_s: float) -> bytes:
    return ask("scontrol", "--all", "show", what, "--json", timeout_s=timeout_s)


class SlurmRest:
    """slurmrestd at `url`, in the newest version of its API. The token is read again for each request."""

    def __init__(self, url: str | None, token: Path | None, *, timeout_s: float) -> None:
        if not url or not token:
            raise BadSetting(
                'read = "rest" needs rest_url and rest_token below [slurm]',
                hint='rest_url = "http://127.0.0.1:6820", rest_token = "/etc/offpeak/slurm.token"',
            )
        self._url, self._token, self._timeout_s = url.rstrip("/"), token, timeout_s

    def read(self) -> SlurmSnapshot:
        """Return jobs, nodes, reservations. Raises CannotAskSlurm if slurmrestd refuses, SlurmIsSilent if silent."""
        with self._session() as session:
            version = newest_rest_version(self._get(session, "/openapi/v3"))
            if not version:
                raise CannotAskSlurm(
                    f"{self._url}: offers no jobs", hint="start it with openapi plugins: slurmrestd -s"
                )
            jobs, nodes, reservations = (
                self._get(session, f"/slurm/{version}/{what}") for what in ("jobs", "nodes", "reservations")
            )
        return SlurmSnapshot(
            jobs_of_json(jobs, source=self._url),
            nodes_of_json(nodes, source=self._url),
            reservations_of_json(reservations, source=self._url),
        )

    @contextmanager
    def _session(self) -> Iterator["WebSession"]:
        # Their import is slow, and only this reader needs them.
        from requests import RequestException, Timeout

        from offpeak.web_session import WebSession

        token = read_secret(self._token)
        with WebSession() as session:
            session.trust_env = False
            session.headers["X-SLURM-USER-NAME"] = token_user(token)
            session.headers["X-SLURM-USER-TOKEN"] = token.value
            try:
                yield session
            except Timeout:
                message = f"{self._url}: no answer within {self._timeout_s:g} s"
                raise SlurmIsSilent(message, hint=DAEMON_HINT.format(url=self._url)) from None
            except RequestException as problem:
                message = f"{self._url}: cannot be reached: {type(problem).__name__}"
                raise SlurmIsSilent(message, hint=DAEMON_HINT.format(url=self._url)) from None

    def _get(self, session: "WebSession", path: str) -> bytes:
        with session.within(self._timeout_s):
            answer = session.get(f"{self._url}{path}", timeout=self._timeout_s, allow_redirects=False)
        if answer.status_code in (401, 403):
            message = f"{self._url}: refuses the token in {self._token}"
            raise CannotAskSlurm(message, hint=TOKEN_HINT.format(path=self._token))
        if not answer.ok:
            message = f"{self._url}{path}: answers {answer.status_code} {answer.reason}"
            raise CannotAskSlurm(message, hint="slurmrestd's log, or `journalctl -u slurmrestd`, says why")
        return answer.content


def newest_rest_version(openapi: bytes) -> str:
    """Return the newest version, such as v0.0.44, in which the server offers jobs; "" if there is none."""
    try:
        paths = json.loads(openapi)["paths"]
    except (ValueError, KeyError, TypeError):
        return ""
    versions = {int(match[2]): match[1] for match in map(_JOBS_PATH.fullmatch, paths) if match}
    return versions[max(versions)] if versions else ""


def token_user(token: Secret) -> str:
    """Return the user of a JSON web token; "root" if it names none."""
    try:
        claims = token.value.split(b".")[1]
        return str(json.loads(base64.urlsafe_b64decode(claims + b"=="))["sun"])
    except (IndexError, KeyError, TypeError, ValueError):
        return "root"


def read_pyslurm(timeout_s: float) -> SlurmSnapshot:
    """Return jobs and nodes from pyslurm, all else from squeue and scontrol. Raises CannotAskSlurm if it is unfit."""
    major, minor = slurm_version(timeout_s)
    try:
        installed = version("pyslurm")
    except PackageNotFoundError:
        hint = f"{_install_pyslurm_hint(major, minor)}, or {READ_TEXT_HINT}"
        raise CannotAskSlurm("pyslurm: is not installed", hint=hint) from None
    match = _RELEASE.match(installed)
    if not match or (int(match[1]), int(match[2])) != (major, minor):
        message = f"pyslurm: {installed} is not made for Slurm {major}.{minor:02}"
        raise CannotAskSlurm(message, hint=f"{_install_pyslurm_hint(major, minor)}, or {READ_TEXT_HINT}")
    try:
        # -P: the folder of the program is not searched for imports.
        answer = ask(sys.executable, "-P", str(CHILD), timeout_s=timeout_s)
    except CannotAskSlurm as problem:
        # The kind of the error stays: pyslurm itself gives up after 10 s.
        raise type(problem)(f"pyslurm: {str(problem).partition(': ')[2]}", hint=READ_TEXT_HINT) from None
    tres = tres_of_text(ask("squeue", *TRES_ARGUMENTS, timeout_s=timeout_s))
    reservations = ask("scontrol", *RESERVATIONS_ARGUMENTS, timeout_s=timeout_s)
    return SlurmSnapshot(
        jobs_of_json(with_tres(answer, tres), source="pyslurm"),
        nodes_of_json(answer, source="pyslurm"),
        reservations_of_text(reservations),
    )


def tres_of_text(text: bytes) -> dict[int, dict[str, str]]:
    """Return each job's TRES per job, node, socket and task, as squeue prints them for TRES_ARGUMENTS."""
    rows = (line.decode(errors="replace").split("|") for line in rows_of_squeue(text))
    return {int(row[0]): dict(zip(TRES, row[1:], strict=True)) for row in rows if len(row) == 1 + len(TRES)}


def with_tres(answer: bytes, tres: Mapping[int, Mapping[str, str]]) -> bytes:
    """Return pyslurm's jobs with their TRES from squeue; a job that has ended since has none."""
    jobs = json.loads(answer)["jobs"]
    return json.dumps({"jobs": [job | tres.get(job["job_id"], {}) for job in jobs]}).encode()


def _install_pyslurm_hint(major: int, minor: int) -> str:
    if (major, minor) < FIRST_ON_INDEX:
        return f"pyslurm for Slurm {major}.{minor:02} is not on the package index: build it from its source"
    folders = "SLURM_INCLUDE_DIR=/usr/include SLURM_LIB_DIR=/usr/lib"
    return install_hint("pyslurm", f"pyslurm=={major}.{minor}.*", environment=folders)
