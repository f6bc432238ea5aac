"""The configuration of Slurm that matters to offpeak: its traits with the site's contract, its timing, limits and load.

The limits are licences and QOS, so far as slurmctld enforces them.
"""

import os
import re
import time
import zlib
from collections import Counter
from collections.abc import Mapping

from offpeak.model.cluster import NO_TIMING, Partition, SchedulerTiming
from offpeak.model.limits import ANY_AMOUNT, PreemptionRules, PreemptMode, Qos, SiteLimits
from offpeak.plugin.contract.slurm import make_slurm_contract
from offpeak.plugin.contract.slurm_programs import slurm_user_id
from offpeak.plugin.contract.slurm_rights import ALL_RIGHTS, SlurmRights
from offpeak.plugin.scheduler.port import NO_LOAD, Ranking, SchedulerLoad, SchedulerTraits
from offpeak.plugin.slurm.accounting import parse_preempt_mode, parse_priority, read_qos
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent, ask, count, limit_s, parse_config, plain

PREEMPT_BY_PARTITION, PREEMPT_BY_QOS = "preempt/partition_prio", "preempt/qos"

_FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_SHARE = re.compile(rb"\sOverSubscribe=(\S+)")

_BOOT_TIME = re.compile(rb"^BOOT_TIME\s*= (\S+)", re.MULTILINE)
_ACTING = re.compile(rb"^Slurmctld\(\S+\) at (\S+) is UP", re.MULTILINE)
_OF_DAEMON = _ACTING, _BOOT_TIME
_OF_POWER = ("Suspend", "Resume", "SlurmctldParameters", "SlurmctldHost", "ReturnToService", "SlurmdTimeout")
_OF_POWER_IN_PARTITIONS = ("SuspendTime", "SuspendTimeout", "ResumeTimeout", "PowerDownOnIdle")

DEFAULT_BF_INTERVAL_S, DEFAULT_BF_MOST_JOBS, DEFAULT_BF_RESOLUTION_S, DEFAULT_BATCH_DELAY_S = 30, 500, 60, 3
DEFAULT_SCHED_INTERVAL_S = 60
END_WINDOW_S = 30
"""The first window of the backfill scheduler, see bf_window_linear in slurm.conf(5)."""
DEFAULT_CRED_EXPIRE_S = 120
BOOT_CHECK_S = 30
"""So often slurmctld checks whether the nodes of a job are up: PERIODIC_TIMEOUT in its source, which has no setting."""

_SDIAG = re.compile(rb"^(Server thread count|Agent queue size): +(\d+)$", re.MULTILINE)
_OF_USER = re.compile(rb"^\s+\S+ +\( *(\d+)\) count:(\d+) +ave_time:\d+ +total_time:(\d+)", re.MULTILINE)
_MICROSECONDS = 1e-6


def traits_of_text(config: bytes, partitions: bytes, rights: SlurmRights = ALL_RIGHTS) -> SchedulerTraits:
    """Return the traits from `scontrol show config` and `scontrol --all --oneliner show partitions`."""
    records = (f"PartitionName={record}" for record in partitions.decode(errors="replace").split("PartitionName=")[1:])
    found = (dict(_FIELD.findall(record)) for record in records)
    settings, by_name = parse_config(config), {fields["PartitionName"]: fields for fields in found}
    limit = _rate_limit(settings)
    contract = make_slurm_contract(settings, by_name, rights, rate_limit=limit)
    named = _scheduler_parameters(settings)
    interval_s = _number(named, "bf_interval", DEFAULT_BF_INTERVAL_S)
    # From one look at all jobs to the next: a backfill lasts up to its own interval.
    backfill_s = interval_s + _number(named, "bf_max_time", interval_s)
    return SchedulerTraits(
        name="slurm",
        version=settings.get("SLURM_VERSION", ""),
        ranking=Ranking.VALUE if settings.get("PriorityType") == "priority/basic" else Ranking.OFFSET,
        power_saving=contract.can_power_nodes,
        boot_s=count(settings.get("ResumeTimeout", "")),
        shared_nodes=_shared(settings, partitions),
        contract=contract,
        cluster=settings.get("ClusterName", ""),
        partitions=tuple(_partition(settings, fields) for fields in by_name.values()),
        timing=parse_timing(settings),
        cycle_s=max(_number(named, "sched_interval", DEFAULT_SCHED_INTERVAL_S), backfill_s),
        requests_per_s=limit[1] if limit else None,
        power_terms=_power_terms(config, settings, by_name),
    )


def _power_terms(config: bytes, settings: Mapping[str, str], partitions: Mapping[str, Mapping[str, str]]) -> str:
    """Return the version, the first controller that is up and its start, and a checksum of the settings of power."""
    own = [(name, value) for name, value in settings.items() if name.startswith(_OF_POWER)]
    for partition, fields in sorted(partitions.items()):
        own += [(partition, fields.get(name, "")) for name in _OF_POWER_IN_PARTITIONS]
    acting, since = (
        match[1].decode(errors="replace") if (match := each.search(config)) else "?" for each in _OF_DAEMON
    )
    if since.isdecimal():
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(int(since)))
    version, checksum = settings.get("SLURM_VERSION", "?"), zlib.crc32(repr(own).encode())
    return f"Slurm {version} on {acting} since {since}, settings {checksum:08x}"


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


def _scheduler_parameters(config: Mapping[str, str]) -> dict[str, str]:
    return dict(term.partition("=")[::2] for term in config.get("SchedulerParameters", "").split(","))


def _number(named: Mapping[str, str], name: str, default: int) -> int:
    return int(value) if (value := named.get(name, "")).isdecimal() else default


def _cred_expire_s(config: Mapping[str, str]) -> int:
    """Return how long a job's credential is valid: slurmctld starts a requeued job when its old one is not any more."""
    named = dict(term.partition("=")[::2] for term in config.get("AuthInfo", "").split(","))
    return count(named.get("cred_expire", "")) or DEFAULT_CRED_EXPIRE_S


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
    qos, problem = _read_qos(settings, timeout_s)
    return SiteLimits(parse_licences(shown), qos, parse_preemption(settings), parse_priority(settings), problem)


def _read_qos(config: Mapping[str, str], timeout_s: float) -> tuple[dict[str, Qos], str]:
    """Return the QOS, and why it is not known which of them preempt.

    AccountingStorageEnforce and PreemptType say whether they limit and preempt.
    """
    limits = "limits" in config.get("AccountingStorageEnforce", "").lower().split(",")
    preempts = config.get("PreemptType") == PREEMPT_BY_QOS
    if not limits and not preempts and not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return {}, ""
    try:
        found = read_qos(mode=parse_preempt_mode(config.get("PreemptMode", "")), timeout_s=timeout_s)
    except CannotAskSlurm as problem:
        return {}, f"{problem}; {problem.hint}" if preempts else ""
    if not preempts:
        default = PreemptMode.REQUEUE
        found = {name: each._replace(preempts=frozenset(), preempt_mode=default) for name, each in found.items()}
    if not limits:
        found = {name: each._replace(group=ANY_AMOUNT, per_user=ANY_AMOUNT) for name, each in found.items()}
    return found, ""


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


def _shared(config: Mapping[str, str], partitions: bytes) -> bool:
    if config.get("SelectType") == "select/linear":
        return False
    return any(share != b"EXCLUSIVE" for share in _SHARE.findall(partitions))


def order_wait_s(config: bytes) -> float:
    """Return how long that limit makes one order of many wait, 0 without a limit."""
    limit = _rate_limit(parse_config(config))
    return 0.0 if limit is None else 1 / limit[1]


def _rate_limit(config: Mapping[str, str]) -> tuple[int, float] | None:
    """Return how many requests slurmctld answers at once, and a second; None if it does not limit this user."""
    parameters = config.get("SlurmctldParameters", "").split(",")
    if "rl_enable" not in parameters or os.geteuid() in (0, slurm_user_id(config)):
        return None
    given = dict(parameter.partition("=")[::2] for parameter in parameters)
    rate, period_s = count(given.get("rl_refill_rate", "")) or 2, count(given.get("rl_refill_period", "")) or 1
    return count(given.get("rl_bucket_size", "")) or 30, rate / period_s


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
