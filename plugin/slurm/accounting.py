"""Reads the jobs of the last days and the QOS from Slurm's accounting, and the order of the queue.

Jobs come from `sacct`, QOS from `sacctmgr`, the settings of priority/multifactor from `scontrol`, the shares from
`sshare`. A queue whose settings slurmctld does not show has the priorities that the accounting records, if it does.
"""

import os
import pwd
import secrets
from collections.abc import Callable, Mapping
from io import BytesIO
from itertools import islice

from offpeak.model.limits import Allowance, PreemptMode, PriorityOrder, PriorityWeights, Qos, ShareAccount, SitePriority
from offpeak.plugin.slurm.commands import CannotAskSlurm, ask, count, limit_s, parse_config, parts

SACCT_COLUMNS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "State", "Submit", "Eligible", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "AllocNodes", "AllocCPUS", "ConsumedEnergyRaw", "ReqTRES", "AllocTRES"),
    *("QOS", "Reservation", "Constraints", "NodeList", "Priority"),
    # Last, because users may write anything into it.
    "JobName",
)
DELIMITER = "\x1f"

DAY_MIN = 24 * 60
# A year of a large site is millions of rows to slurmdbd.
LONG_S = 1800.0
SHORT_S = 60.0


PIECE_DAYS, OVERLAP_MIN = 7, 60

QOS_COLUMNS = (
    *("Name", "Priority", "Preempt", "PreemptMode", "PreemptExemptTime"),
    *("GrpTRES", "GrpJobs", "MaxTRESPU", "MaxJobsPU"),
)

MULTIFACTOR = "priority/multifactor"
SHARE_COLUMNS = ("Account", "User", "RawShares")
USES_PARENT = "parent"

_MODELLED_FLAGS = frozenset({"NO_FAIR_TREE", "FAIR_TREE", "SMALL_RELATIVE_TO_TIME", "CALCULATE_RUNNING"})
_OTHER_FACTORS = ("PriorityWeightAssoc", "PriorityWeightTRES", "PrioritySiteFactorPlugin")
_NOT_MODELLED = (*_OTHER_FACTORS, "PriorityUsageResetPeriod")


def sacct_text(
    days: int, *, timeout_s: float = LONG_S, progress: Callable[[int, int], None] = lambda _done, _days: None
) -> bytes:
    """Return the jobs of all users that were queued or ran within the last `days`, one line a run, with a header.

    Columns are SACCT_COLUMNS, separated by DELIMITER; times are Unix seconds or a text such as Unknown. A requeued job
    has a line for each run. slurmdbd is asked for a week at a time; a run in two weeks has two lines. `progress` gets
    the days that were read, and all. Raises CannotAskSlurm if accounting is off or shows only the user's own jobs,
    SlurmIsSilent if it is down.
    """
    # No user can guess this text and write lines of other jobs into the name of a job.
    between = f"{DELIMITER}{secrets.token_hex(8)}{DELIMITER}"
    arguments = (
        "--allusers",
        "--allocations",
        "--duplicates",
        "--parsable2",
        f"--delimiter={between}",
        f"--format={','.join(SACCT_COLUMNS)}",
    )
    text = b""
    for begin in range(days, 0, -PIECE_DAYS):
        until = max(begin - PIECE_DAYS, 0)
        # The clock goes on between two pieces: each reaches into the next one.
        window = [f"--starttime=now-{begin * DAY_MIN}minutes"]
        window += [f"--endtime=now-{until * DAY_MIN - OVERLAP_MIN}minutes"] if until else []
        piece = _rows(ask("sacct", *arguments, *window, timeout_s=timeout_s), between.encode())
        text += piece.partition(b"\n")[2] if text else piece
        progress(days - until, days)
    if os.geteuid() != 0 and not _shows_others(text) and _jobs_are_private():
        hint = "run this as root or SlurmUser, or `sacctmgr modify user NAME set adminlevel=operator`"
        raise CannotAskSlurm("sacct shows only your own jobs: PrivateData=jobs in slurmdbd.conf", hint=hint)
    return text


def _rows(answer: bytes, between: bytes) -> bytes:
    """Return the complete rows with the plain delimiter: a line break in a job's name makes an incomplete row."""
    rows = (line.split(between) for line in answer.split(b"\n"))
    return b"".join(DELIMITER.encode().join(row) + b"\n" for row in rows if len(row) == len(SACCT_COLUMNS))


def _shows_others(text: bytes) -> bool:
    user, mine = SACCT_COLUMNS.index("User"), _own_name().encode()
    rows = (line.split(DELIMITER.encode()) for line in islice(BytesIO(text), 1, None))
    return any(row[user] != mine for row in rows if len(row) > user)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # Slurm, too, shows the number of a user without a name.
        return str(os.geteuid())


def _jobs_are_private() -> bool:
    lines = ask("sacctmgr", "--noheader", "show", "configuration", timeout_s=SHORT_S).decode(errors="replace")
    ours = lines.partition("SlurmDBD configuration")[2].splitlines()
    return any("jobs" in line for line in ours if line.startswith("PrivateData"))


def read_qos(*, mode: PreemptMode = PreemptMode.REQUEUE, timeout_s: float = SHORT_S) -> dict[str, Qos]:
    """Return the QOS with their limits by name; `mode` is the cluster's PreemptMode.

    Raises CannotAskSlurm if sacctmgr fails, or lists none: Slurm's accounting has one at least.
    """
    columns = f"format={','.join(QOS_COLUMNS)}"
    answer = ask("sacctmgr", "--noheader", "--parsable2", "show", "qos", columns, timeout_s=timeout_s)
    if found := parse_qos(answer.decode(errors="replace"), mode):
        return found
    raise CannotAskSlurm("sacctmgr: lists no QOS", hint="`sacctmgr show qos` as the agent's user must list them")


def parse_qos(text: str, mode: PreemptMode = PreemptMode.REQUEUE) -> dict[str, Qos]:
    """Return the QOS of `sacctmgr --parsable2 show qos` with QOS_COLUMNS; a line with other columns is left out.

    Those without a PreemptMode of their own have that of the cluster.
    """
    rows = (line.split("|") for line in text.splitlines())
    found = [
        Qos(
            name,
            group=_allowance(group_jobs, group),
            per_user=_allowance(user_jobs, per_user),
            priority=count(priority),
            preempts=frozenset(parts(preempts)),
            preempt_mode=mode if own_mode in ("", "cluster") else parse_preempt_mode(own_mode),
            exempt_s=limit_s(exempt) if exempt else None,
        )
        for name, priority, preempts, own_mode, exempt, group, group_jobs, per_user, user_jobs in (
            row for row in rows if len(row) == len(QOS_COLUMNS) and row[0]
        )
    ]
    return {qos.name: qos for qos in found}


def parse_preempt_mode(text: str) -> PreemptMode:
    """Return what a PreemptMode such as REQUEUE or SUSPEND,GANG does to jobs: nothing, if it is not known."""
    named = (name for name in parts(text.lower()) if name not in ("gang", "within"))
    mode = next(named, "")
    return PreemptMode(mode) if mode in tuple(PreemptMode) else PreemptMode.OFF


def _allowance(jobs: str, tres: str) -> Allowance:
    """Return the limits of a column of jobs and one of TRES. Limits of a type of GPUs are left out."""
    most = dict(entry.partition("=")[::2] for entry in tres.split(",") if entry)
    numbers = {name: count(value) for name, value in most.items() if value.isdecimal()}
    return Allowance(
        jobs=count(jobs) if jobs.isdecimal() else None,
        nodes=numbers.get("node"),
        cores=numbers.get("cpu"),
        gpus=numbers.get("gres/gpu"),
    )


def read_priority() -> SitePriority:
    """Return the order of Slurm's queue, with what could not be read among what is not modelled."""
    try:
        config = parse_config(ask("scontrol", "show", "config", timeout_s=SHORT_S))
    except CannotAskSlurm as problem:
        return SitePriority(PriorityOrder.RECORDED, not_modelled=(f"Slurm's weights ({problem})",))
    found = parse_priority(config)
    return with_shares(found) if found.weights.fair_share else found


def parse_priority(config: Mapping[str, str]) -> SitePriority:
    """Return the order by the settings of `scontrol show config`, without the shares of accounts."""
    kind = config.get("PriorityType", "")
    if not kind:
        return SitePriority(PriorityOrder.RECORDED, not_modelled=("Slurm's weights (scontrol shows no PriorityType)",))
    if kind != MULTIFACTOR:
        return SitePriority(PriorityOrder.SUBMISSION)
    flags = frozenset(parts(config.get("PriorityFlags", "").upper()))
    default = PriorityWeights()
    weights = PriorityWeights(
        age=count(config.get("PriorityWeightAge", "")),
        fair_share=count(config.get("PriorityWeightFairShare", "")),
        job_size=count(config.get("PriorityWeightJobSize", "")),
        partition=count(config.get("PriorityWeightPartition", "")),
        qos=count(config.get("PriorityWeightQOS", "")),
        max_age_s=_time_s(config, "PriorityMaxAge", default.max_age_s) or default.max_age_s,
        favor_small=config.get("PriorityFavorSmall", "").lower() in ("yes", "true", "1"),
        small_relative_to_time="SMALL_RELATIVE_TO_TIME" in flags,
        half_life_s=_time_s(config, "PriorityDecayHalfLife", default.half_life_s),
        calc_period_s=_time_s(config, "PriorityCalcPeriod", default.calc_period_s) or default.calc_period_s,
        is_fair_tree="NO_FAIR_TREE" not in flags,
        dampening=float(count(config.get("FairShareDampeningFactor", "")) or 1),
    )
    given = [name for name in _NOT_MODELLED if config.get(name, "") not in ("", "0")]
    more = [f"PriorityFlags={flag}" for flag in sorted(flags - _MODELLED_FLAGS)]
    modelled = weights.age or weights.fair_share or weights.job_size or weights.partition or weights.qos
    if not modelled and not any(name in _OTHER_FACTORS for name in given):
        # All priorities are equal.
        return SitePriority(PriorityOrder.SUBMISSION, not_modelled=(*given, *more))
    return SitePriority(PriorityOrder.MULTIFACTOR, weights, not_modelled=(*given, *more))


def _time_s(config: Mapping[str, str], name: str, default_s: int) -> int:
    seconds = limit_s(config.get(name, ""))
    return default_s if seconds is None else seconds


def with_shares(priority: SitePriority) -> SitePriority:
    """Return the priority with the accounts of `sshare`; without fair share if Slurm does not tell any shares."""
    columns = f"--format={','.join(SHARE_COLUMNS)}"
    try:
        answer = ask("sshare", "--all", "--parsable2", "--noheader", columns, timeout_s=SHORT_S)
        accounts, reason = parse_shares(answer.decode(errors="replace")), "sshare lists no users"
    except CannotAskSlurm as problem:
        accounts, reason = (), str(problem)
    if any(account.users for account in accounts):
        return priority._replace(accounts=accounts)
    weights = priority.weights._replace(fair_share=0)
    not_modelled = (*priority.not_modelled, f"fair share ({reason})")
    return priority._replace(weights=weights, not_modelled=not_modelled)


def parse_shares(text: str) -> tuple[ShareAccount, ...]:
    """Return the accounts of `sshare --all --parsable2` with SHARE_COLUMNS; a line with other columns is left out.

    Accounts are indented by their depth. The users of the account root stand beside the accounts below the root.
    """
    above: dict[int, str] = {}
    accounts: dict[str, ShareAccount] = {}
    users: dict[str, dict[str, int | None]] = {}
    for row in (line.split("|") for line in text.splitlines()):
        if len(row) != len(SHARE_COLUMNS) or not row[0].strip():
            continue
        name, user, shares = row[0].strip(), row[1].strip(), _shares(row[2])
        if user:
            # A user may have an association for each of several partitions, too.
            users.setdefault(name, {}).setdefault(user, shares)
            continue
        depth = len(row[0]) - len(row[0].lstrip())
        above[depth] = name
        parent = above.get(depth - 1, "") if depth else ""
        accounts.setdefault(name, ShareAccount(name, parent, shares if depth else None))
    listed = (accounts.get(name, ShareAccount(name)) for name in dict.fromkeys((*accounts, *users)))
    return tuple(each._replace(users=tuple(users.get(each.name, {}).items())) for each in listed)


def _shares(text: str) -> int | None:
    return None if text.strip().lower() == USES_PARENT else count(text.strip())
