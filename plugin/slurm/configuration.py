"""The configuration of Slurm that matters to offpeak: settings of slurm.conf, limits, and the rights of this user.

The limits are licences and QOS, so far as slurmctld enforces them. The traits list the settings that are wrong for
nodes that sleep. The rights are the user's AdminLevel, and what PrivateData hides from the user. The level comes from
slurmctld itself, by `scontrol show assoc_mgr`: slurmctld decides by the level that it knows now, not by the level in
slurmdbd. Without slurmdbd only root and SlurmUser have a level.
"""

import os
import re
import socket
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from offpeak.model.cluster import NO_TIMING, Partition, SchedulerTiming
from offpeak.model.constants import DAY_S
from offpeak.model.limits import ANY_AMOUNT, PreemptionRules, PreemptMode, Qos, SiteLimits
from offpeak.process import user_name
from plugin.scheduler.port import NO_LOAD, Ranking, SchedulerLoad, SchedulerTraits
from plugin.slurm.accounting import parse_preempt_mode, parse_priority, read_qos
from plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent, ask, count, limit_s, parse_config, plain

A_YEAR_S = 31_536_000
# Less than this, and Slurm may suspend a node before the agent has decided.
LONG_S = 30 * DAY_S
# The time from the order to power off until a server is off.
SHUTDOWN_S = 180
PROGRAMS = ("SuspendProgram", "ResumeProgram", "ResumeFailProgram")

ENOUGH_AT_ONCE = 500
"""Requests: a cycle reads with about ten, and changes up to 500 jobs with one each."""

RESTART = "then restart slurmctld"

PREEMPT_BY_PARTITION, PREEMPT_BY_QOS = "preempt/partition_prio", "preempt/qos"

_UID = re.compile(r"\((\d+)\)")
_FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_SHARE = re.compile(rb"\sOverSubscribe=(\S+)")
_PARTITION_SUSPENDS = re.compile(rb"^PartitionName=(\S+).*?\sSuspendTime=(\d+)", re.MULTILINE)


def traits_of_text(config: bytes, partitions: bytes) -> SchedulerTraits:
    """Return the traits from `scontrol show config` and `scontrol --all --oneliner show partitions`."""
    settings = parse_config(config)
    suspends = {name.decode(errors="replace"): int(s) for name, s in _PARTITION_SUSPENDS.findall(partitions)}
    unusable = _find_unusable_programs(settings)
    return SchedulerTraits(
        name="slurm",
        version=settings.get("SLURM_VERSION", ""),
        ranking=Ranking.VALUE if settings.get("PriorityType") == "priority/basic" else Ranking.OFFSET,
        power_saving=_finite(settings) and all(settings.get(program) for program in PROGRAMS) and not unusable,
        boot_s=count(settings.get("ResumeTimeout", "")),
        shared_nodes=_shared(settings, partitions),
        problems=(
            *_power_problems(settings, suspends),
            *unusable,
            *_node_problems(settings),
            *find_rate_problems(settings),
        ),
        cluster=settings.get("ClusterName", ""),
        partitions=_partitions(settings, partitions),
        timing=parse_timing(settings),
        cycle_s=_longest_cycle_s(settings),
        requests_per_s=limit[1] if (limit := _rate_limit(settings)) else None,
    )


DEFAULT_BF_INTERVAL_S, DEFAULT_BF_MOST_JOBS, DEFAULT_BF_RESOLUTION_S, DEFAULT_BATCH_DELAY_S = 30, 500, 60, 3
DEFAULT_SCHED_INTERVAL_S = 60
END_WINDOW_S = 30
"""The first window of the backfill scheduler, see bf_window_linear in slurm.conf(5)."""
DEFAULT_CRED_EXPIRE_S = 120
BOOT_CHECK_S = 30
"""So often slurmctld checks whether the nodes of a job are up: PERIODIC_TIMEOUT in its source, which has no setting."""


def parse_timing(config: Mapping[str, str]) -> SchedulerTiming:
    """Return when slurmctld decides, from the settings of `scontrol show config`; unknown without backfill.

    Slurm also schedules at each submission and end, so sched_interval is not the distance of its passes. With `defer`
    they wait for batch_sched_delay.
    """
    if config.get("SchedulerType") != "sched/backfill":
        return NO_TIMING
    named = _scheduler_parameters(config)
    interval_s = _number(named, "bf_interval", DEFAULT_BF_INTERVAL_S)
    most_jobs = _number(named, "bf_max_job_test", DEFAULT_BF_MOST_JOBS)
    delay_s = _number(named, "batch_sched_delay", DEFAULT_BATCH_DELAY_S) if "defer" in named else 0
    passes = f"passes in order every {delay_s} s (defer)" if delay_s else "passes in order at each submission and end"
    return SchedulerTiming(
        sched_interval_s=delay_s,
        bf_interval_s=interval_s,
        bf_most_jobs=most_jobs,
        bf_resolution_s=_number(named, "bf_resolution", DEFAULT_BF_RESOLUTION_S),
        end_window_s=END_WINDOW_S,
        end_window_step_s=_number(named, "bf_window_linear", 0),
        boot_check_s=BOOT_CHECK_S,
        requeue_s=_cred_expire_s(config) + 1,
        text=f"backfill every {interval_s} s for up to {most_jobs} jobs, {passes}",
    )


def _longest_cycle_s(config: Mapping[str, str]) -> int:
    """Return the longest time from one look at all jobs to the next: a backfill lasts up to its own interval."""
    named = _scheduler_parameters(config)
    interval_s = _number(named, "bf_interval", DEFAULT_BF_INTERVAL_S)
    backfill_s = interval_s + _number(named, "bf_max_time", interval_s)
    return max(_number(named, "sched_interval", DEFAULT_SCHED_INTERVAL_S), backfill_s)


def _scheduler_parameters(config: Mapping[str, str]) -> dict[str, str]:
    return dict(term.partition("=")[::2] for term in config.get("SchedulerParameters", "").split(","))


def _number(named: Mapping[str, str], name: str, default: int) -> int:
    return int(value) if (value := named.get(name, "")).isdecimal() else default


def _cred_expire_s(config: Mapping[str, str]) -> int:
    """Return how long a job's credential is valid: slurmctld starts a requeued job when its old one is not any more."""
    named = dict(term.partition("=")[::2] for term in config.get("AuthInfo", "").split(","))
    return count(named.get("cred_expire", "")) or DEFAULT_CRED_EXPIRE_S


def _partitions(config: Mapping[str, str], shown: bytes) -> tuple[Partition, ...]:
    """Return the partitions of `scontrol --all show partitions`, on one line each or on several."""
    records = (f"PartitionName={record}" for record in shown.decode(errors="replace").split("PartitionName=")[1:])
    return tuple(_partition(config, dict(_FIELD.findall(record))) for record in records)


def _partition(config: Mapping[str, str], fields: Mapping[str, str]) -> Partition:
    preempts = config.get("PreemptType") == PREEMPT_BY_PARTITION
    return Partition(
        fields["PartitionName"],
        shared=config.get("SelectType") != "select/linear" and fields.get("OverSubscribe") != "EXCLUSIVE",
        priority_tier=count(fields.get("PriorityTier", "1")),
        most_nodes=count(most) if (most := fields.get("MaxNodes", ""))[:1].isdecimal() else None,
        limit_s=limit_s(fields.get("MaxTime", "")),
        preempts=preempts,
        preempt_mode=parse_preempt_mode(fields.get("PreemptMode", "")) if preempts else PreemptMode.REQUEUE,
        job_factor=count(fields.get("PriorityJobFactor", "1")),
        qos=plain(fields.get("QoS", "")),
        is_default=fields.get("Default") == "YES",
    )


def read_limits(config: bytes, *, timeout_s: float) -> SiteLimits:
    """Return the limits; `config` is the answer of `scontrol show config`. What Slurm does not tell is not known."""
    settings = parse_config(config)
    try:
        shown = ask("scontrol", "show", "licenses", "--oneliner", timeout_s=timeout_s)
    except CannotAskSlurm:
        shown = b""
    priority = parse_priority(settings)
    return SiteLimits(parse_licences(shown), _read_qos(settings, timeout_s), parse_preemption(settings), priority)


def _read_qos(config: Mapping[str, str], timeout_s: float) -> dict[str, Qos]:
    """Return the QOS; AccountingStorageEnforce and PreemptType say whether they limit and preempt."""
    limits = "limits" in config.get("AccountingStorageEnforce", "").lower().split(",")
    preempts = config.get("PreemptType") == PREEMPT_BY_QOS
    if not limits and not preempts and not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return {}
    found = read_qos(mode=parse_preempt_mode(config.get("PreemptMode", "")), timeout_s=timeout_s)
    if not preempts:
        default = PreemptMode.REQUEUE
        found = {name: each._replace(preempts=frozenset(), preempt_mode=default) for name, each in found.items()}
    if not limits:
        found = {name: each._replace(group=ANY_AMOUNT, per_user=ANY_AMOUNT) for name, each in found.items()}
    return found


def parse_preemption(config: Mapping[str, str]) -> PreemptionRules:
    """Return which jobs slurmctld stops for others, by `scontrol show config`, with PreemptParameters if new."""
    given = f"{config.get('SchedulerParameters', '')},{config.get('PreemptParameters', '')}".split(",")
    return PreemptionRules(
        exempt_s=limit_s(config.get("PreemptExemptTime", "")) or 0,
        youngest_first="preempt_youngest_first" in given or "youngest_first" in given,
    )


def parse_licences(shown: bytes) -> dict[str, int]:
    """Return how many of each licence the jobs of the cluster may take, from `scontrol show licenses`.

    LastDeficit is the number of a remote licence that is in use elsewhere beyond the share of others. Used does not
    count: what running jobs take is known from their requests. A licence on several lines is a part of a hierarchy,
    with a number for each set of nodes: the number for a job is not known.
    """
    records = shown.decode(errors="replace").split("LicenseName=")[1:]
    fields = [dict(_FIELD.findall(f"LicenseName={record}")) for record in records]
    lines = Counter(each["LicenseName"] for each in fields)
    return {
        name: max(int(each["Total"]) - int(deficit), 0)
        for each in fields
        if lines[name := each["LicenseName"]] == 1
        and name
        and each.get("Total", "").isdecimal()
        and (deficit := each.get("LastDeficit", "0")).isdecimal()
    }


def _finite(config: Mapping[str, str]) -> bool:
    return count(config.get("SuspendTime", "")) > 0


def _shared(config: Mapping[str, str], partitions: bytes) -> bool:
    if config.get("SelectType") == "select/linear":
        return False
    return any(share != b"EXCLUSIVE" for share in _SHARE.findall(partitions))


def _power_problems(config: Mapping[str, str], suspends: Mapping[str, int]) -> list[tuple[str, str]]:
    problems = []
    year = f"write SuspendTime={A_YEAR_S} into slurm.conf, {RESTART}"
    after_s = count(config.get("SuspendTime", ""))
    if not _finite(config):
        problems.append(("SuspendTime=INFINITE: Slurm powers down no node", year))
    elif after_s < LONG_S:
        problems.append((f"SuspendTime={after_s}: Slurm itself suspends nodes that are idle for {after_s} s", year))
    for name, partition_s in suspends.items():
        if 0 < partition_s < LONG_S:
            message = f"partition {name}: SuspendTime={partition_s}: Slurm itself suspends its idle nodes"
            problems.append((message, f"take SuspendTime out of PartitionName={name} in slurm.conf, {RESTART}"))
    missing = [program for program in PROGRAMS if not config.get(program)]
    if missing:
        lines = " ".join(
            f"{program}=/etc/slurm/offpeak-{program.removesuffix('Program').lower()}" for program in missing
        )
        hint = f"write such lines into slurm.conf: {lines}, {RESTART}"
        problems.append((f"{', '.join(missing)} not set: Slurm has no node woken for a job", hint))
    return problems


def _find_unusable_programs(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the programs of this controller with which slurmctld powers no node; another host's files are not known.

    slurmctld wants an absolute path to a file that is executable and that only its owner may write.
    """
    here = socket.gethostname().partition(".")[0]
    hosts = [re.split(r"[.(]", value)[0] for name, value in config.items() if name.startswith("SlurmctldHost")]
    if here not in hosts:
        return []
    problems = []
    for program in PROGRAMS:
        path = config.get(program, "").partition(" ")[0]
        if path and (why := _find_problem_of_program(path)):
            message = f"{program}={path}: {why}: slurmctld powers no node, and wakes none for a job"
            problems.append((message, f"mend it on each controller, {RESTART}"))
    return problems


def _find_problem_of_program(path: str) -> str:
    """Return why slurmctld takes no such program, "" if it does or if this user may not look."""
    if not path.startswith("/"):
        return "is no absolute path"
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "no such file"
    except OSError:
        return ""
    if not stat.S_ISREG(mode) or not mode & 0o111:
        return "cannot be run"
    return "others than its owner may write it" if mode & 0o022 else ""


def _node_problems(config: Mapping[str, str]) -> list[tuple[str, str]]:
    problems = []
    returns = config.get("ReturnToService", "")
    if returns != "2":
        message = f"ReturnToService={returns}: a node that Slurm took for dead while it slept may stay down"
        problems.append((message, "write ReturnToService=2 into slurm.conf, then `scontrol reconfigure`"))
    silent_s = count(config.get("SlurmdTimeout", ""))
    if 0 < silent_s < SHUTDOWN_S:
        message = f"SlurmdTimeout={silent_s}: Slurm takes a node for dead before it has shut down"
        problems.append((message, "write SlurmdTimeout=300 into slurm.conf, then `scontrol reconfigure`"))
    return problems


def find_rate_problems(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the problem that slurmctld's limit of requests is for this user."""
    limit = _rate_limit(config)
    if limit is None or limit[0] >= ENOUGH_AT_ONCE:
        return []
    message = (
        f"rl_enable: slurmctld answers this user {limit[0]} requests, then {limit[1]:g} a second:"
        " many changes of jobs are spread over cycles"
    )
    hint = f"write rl_bucket_size=1000,rl_refill_rate=100 behind rl_enable in SlurmctldParameters, {RESTART}"
    return [(message, hint)]


def order_wait_s(config: bytes) -> float:
    """Return how long that limit makes one order of many wait, 0 without a limit."""
    limit = _rate_limit(parse_config(config))
    return 0.0 if limit is None else 1 / limit[1]


def _rate_limit(config: Mapping[str, str]) -> tuple[int, float] | None:
    """Return how many requests slurmctld answers at once, and a second; None if it does not limit this user."""
    parameters = config.get("SlurmctldParameters", "").split(",")
    if "rl_enable" not in parameters or os.geteuid() in (0, _uid(config.get("SlurmUser", ""))):
        return None
    given = dict(parameter.partition("=")[::2] for parameter in parameters)
    rate, period_s = count(given.get("rl_refill_rate", "")) or 2, count(given.get("rl_refill_period", "")) or 1
    return count(given.get("rl_bucket_size", "")) or 30, rate / period_s


_SDIAG = re.compile(rb"^(Server thread count|Agent queue size): +(\d+)$", re.MULTILINE)
_OF_USER = re.compile(rb"^\s+\S+ +\( *(\d+)\) count:(\d+) +ave_time:\d+ +total_time:(\d+)", re.MULTILINE)
_MICROSECONDS = 1e-6


def parse_load(shown: bytes, *, uid: int, latency_s: float = 0.0, shared_user: str = "") -> SchedulerLoad:
    """Return the load that sdiag shows, with the requests of this user; what it does not show is not known."""
    head, users, rest = shown.partition(b"statistics by user")
    if not users:
        return NO_LOAD
    named = {name: int(number) for name, number in _SDIAG.findall(head)}
    by_user = rest.partition(b"Pending RPC")[0]
    mine = [(int(requests), int(busy)) for user, requests, busy in _OF_USER.findall(by_user) if int(user) == uid]
    # slurmctld lists a user from its first request on, so that an absent one has none.
    requests, busy_us = mine[0] if mine else (0, 0)
    return SchedulerLoad(
        latency_s,
        named.get(b"Server thread count"),
        named.get(b"Agent queue size"),
        requests,
        busy_us * _MICROSECONDS,
        shared_user,
    )


def read_load(shared_user: str, *, timeout_s: float) -> SchedulerLoad:
    """Return the load of slurmctld, nothing if it refuses sdiag. Raises SlurmIsSilent if it does not answer.

    `shared_user` is the user of this process if it is that of Slurm's daemons too, else "".
    """
    begun_s = time.monotonic()
    try:
        shown = ask("sdiag", timeout_s=timeout_s)
    except SlurmIsSilent:
        raise
    except CannotAskSlurm:
        return NO_LOAD
    return parse_load(shown, uid=os.geteuid(), latency_s=time.monotonic() - begun_s, shared_user=shared_user)


def _uid(text: str) -> int | None:
    match = _UID.search(text)
    return int(match[1]) if match else None


RECHECK_S = 60.0
NEEDED = ("jobs", "nodes", "partitions", "reservations")
"""Entries of PrivateData that hide what the agent needs for its decisions."""

_LEVEL = re.compile(r"^\s*UserName=([^\s(]+).*?AdminLevel=(Not Set|\S+)", re.MULTILINE)


class AdminLevel(StrEnum):
    """An Operator may change jobs, an Administrator nodes too. Both see what PrivateData hides from others."""

    NONE = "None"
    OPERATOR = "Operator"
    ADMINISTRATOR = "Administrator"


@dataclass(frozen=True)
class SlurmRights:
    """The user's level, and the entries of PrivateData that apply to it. `is_daemons`: it is root or SlurmUser."""

    user: str
    level: AdminLevel
    hidden: tuple[str, ...] = ()
    is_daemons: bool = False

    @property
    def hint(self) -> str:
        """The command by which the user may see and change everything."""
        command = f"sacctmgr modify user {self.user} set adminlevel=Administrator"
        return f"{command}; without slurmdbd run offpeak as SlurmUser"

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """Hidden data that decisions need, as message and hint."""
        hidden = [entry for entry in self.hidden if entry in NEEDED]
        message = f"PrivateData={','.join(hidden)} in slurm.conf hides what belongs to others from {self.user}"
        return ((message, self.hint),) if hidden else ()

    def require_all_jobs(self) -> None:
        """Raise CannotAskSlurm if slurmctld hides jobs from the user: a node with a hidden job looks free."""
        if "jobs" in self.hidden:
            message = f"squeue: PrivateData=jobs in slurm.conf hides the jobs of others from {self.user}"
            raise CannotAskSlurm(message, hint=self.hint)


def read_rights(*, timeout_s: float) -> SlurmRights:
    """Return the rights of the user of this process. Raises CannotAskSlurm if slurmctld does not answer."""
    config = parse_config(ask("scontrol", "show", "config", timeout_s=timeout_s))
    user = user_name(os.geteuid())
    if user in ("root", config.get("SlurmUser", "").partition("(")[0]):
        return SlurmRights(user, AdminLevel.ADMINISTRATOR, is_daemons=True)
    level = _read_level(user, timeout_s)
    private = tuple(entry for entry in config.get("PrivateData", "").lower().split(",") if entry)
    return SlurmRights(user, level, private if level is AdminLevel.NONE else ())


def cached_rights(timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Callable[[], SlurmRights]:
    """Return a function that gives the rights and reads them again after RECHECK_S."""
    known: list[tuple[float, SlurmRights]] = []

    def rights() -> SlurmRights:
        now_s = clock()
        if not known or now_s - known[-1][0] > RECHECK_S:
            known[:] = [(now_s, read_rights(timeout_s=timeout_s))]
        return known[-1][1]

    return rights


def find_admin_level(shown: str, user: str) -> str:
    """Return the user's AdminLevel in `scontrol show assoc_mgr`; "None" for a user that slurmdbd does not know."""
    return next((level for name, level in _LEVEL.findall(shown) if name == user), "None")


def _read_level(user: str, timeout_s: float) -> AdminLevel:
    try:
        answer = ask("scontrol", "show", "assoc_mgr", f"users={user}", "flags=users", timeout_s=timeout_s)
    except CannotAskSlurm:
        # PrivateData may refuse even this query; a user that is refused has no level.
        return AdminLevel.NONE
    level = find_admin_level(answer.decode(errors="replace"), user)
    return AdminLevel(level) if level in tuple(AdminLevel) else AdminLevel.NONE
