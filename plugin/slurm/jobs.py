"""Parses the jobs that squeue prints as text, and those of `squeue --json` and of slurmrestd.

The text has one record a job. The pending tasks of an array are one record of the scheduler, except for tasks that
were split off. Without --array squeue hides the split-off tasks; with it an array is many equal lines, of which one is
kept. These lines do not show how many tasks may run at once: a second query does. Free text of users comes last. A
random text ends each record and separates its columns: an account or a comment may contain any character.
"""

import re
from collections import Counter
from collections.abc import Collection
from hashlib import blake2b
from sys import intern

from offpeak.model.request import Request
from offpeak.plugin.scheduler.job import Job, JobState, bounded_limit_s
from offpeak.plugin.slurm.commands import (
    NOTHING,
    Record,
    count,
    get_list,
    get_number,
    get_text,
    get_time_s,
    json_records,
    limit_s,
    memory_mib,
    parts,
    plain,
    rows_of_squeue,
    unix_s,
)
from offpeak.plugin.slurm.requests import RequestTerms, count_tasks, is_per_cpu, parse_request, throttle

# In Slurm's order: of a job with several flags Slurm shows the first.
STATE_FLAGS = {
    "COMPLETING": JobState.ENDS,
    "STAGE_OUT": JobState.ENDS,
    "CONFIGURING": JobState.STARTS,
    "POWER_UP_NODE": JobState.STARTS,
    "RESIZING": JobState.RUNNING,
    "REQUEUED": JobState.ENDS,
    "REQUEUE_FED": JobState.ENDS,
    "REQUEUE_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "STOPPED": JobState.SUSPENDED,
    "REVOKED": JobState.ENDED,
    "RESV_DEL_HOLD": JobState.HELD,
    "SIGNALING": JobState.ENDS,
}
_ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE")
BASE_STATES = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    **dict.fromkeys((*_ENDED, "OUT_OF_MEMORY"), JobState.ENDED),
}
_STATES = STATE_FLAGS | BASE_STATES

# These flags do not change the state of a job.
_IGNORED_STATES = frozenset({"UPDATE_DB", "LAUNCH_FAILED", "RECONFIG_FAIL", "EXPEDITING"})
HELD_REASONS = frozenset({"JobHeldAdmin", "JobHeldUser"})

SQUEUE_COLUMNS = (
    *("JobID", "JobArrayID", "HetJobID", "State", "Reason", "UserName", "Account", "Partition", "PriorityLong"),
    *("Nice", "NumNodes", "NumCPUs", "NumTasks", "OverSubscribe", "TimeLimit"),
    *("SubmitTime", "EligibleTime", "StartTime", "EndTime", "NodeList", "SchedNodes", "Dependency"),
    *("Reservation", "QOS", "MinCpus", "MinMemory", "tres-alloc", "Licenses"),
    *("Feature", "ReqNodes", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "Deadline"),
    *("Comment", "Name"),
)
SEPARATOR = "\0"
"""Separates the columns of a record that was read: no text of Slurm contains it."""

SEPARATOR_TEXT = "|"

# Every version has these options: --array-unique, which would print one record an array, ended with 22.05. Without
# --noconvert 2048 nodes would be 2K.
SQUEUE_OPTIONS = ("--all", "--local", "--noconvert", "--array", "--states=all")

ARRAYS_ARGUMENTS = (
    *("--all", "--local", "--noconvert", "--states=PENDING"),
    f"--Format=JobID:{SEPARATOR_TEXT},ArrayTaskID:",
)

FACTORS = ("%A", "%F", "%J", "%P", "%Q", "%B", "%S", "%N", "%T")
"""Age, fair share, job size, partition, QOS, association, site, nice value and TRES, each times its weight."""
FACTORS_ARGUMENTS = ("--noheader", f"--format=%i|{'|'.join(FACTORS)}")
_LISTED = re.compile(r"^ *(\w+)", re.MULTILINE)
_COMPUTED = re.compile(r"^ *(\w+) *\|.*[^-0. |\n]", re.MULTILINE)
_FAIR_SHARE = re.compile(r"^ *(\w+) *\|[^|\n]*\| *(\d+)", re.MULTILINE)
LEAST_SET_PRIORITY = 20
"""Factors below 1 are printed as 0, so a lower priority may be their sum."""


def job_state(native_state: str, reason: str, priority: int) -> JobState:
    """Return the state for Slurm's state; OTHER if it is not known."""
    state = _STATES.get(native_state, JobState.OTHER)
    if state is JobState.PENDING and (priority == 0 or reason in HELD_REASONS):
        return JobState.HELD
    return state


def select_state(native_states: Collection[str]) -> str:
    """Return the state that Slurm shows where it shows only one for a job; all states if one of them is not known."""
    states = [state for state in native_states if state not in _IGNORED_STATES]
    if any(state not in _STATES for state in states):
        return "+".join(states)
    shown = next((flag for flag in STATE_FLAGS if flag in states), None) or next(iter(states), "")
    return "CONFIGURING" if shown == "POWER_UP_NODE" else shown


def squeue_arguments(end: str) -> tuple[str, ...]:
    """Return squeue's arguments; each record of its output ends with `end` and a newline."""
    last = len(SQUEUE_COLUMNS) - 1
    columns = (f"{column}:{end if i == last else separator(end)}" for i, column in enumerate(SQUEUE_COLUMNS))
    return (*SQUEUE_OPTIONS, f"--Format={','.join(columns)}")


def separator(end: str) -> str:
    """Return the text between two columns; like `end`, no user can guess it."""
    return f"\x1f{end}\x1f"


def jobs_of_text(text: bytes, end: str, known: dict[bytes, Job | None] | None = None) -> tuple[Job, ...]:
    """Return the jobs of squeue's answer to `squeue_arguments(end)`. Raises CannotAskSlurm if it is not complete.

    `known` are the jobs of an earlier answer by the digest of the record, which most waiting jobs have again; those of
    this one take their place.
    """
    records = rows_of_squeue(text.replace(separator(end).encode(), SEPARATOR.encode()), f"{end}\n".encode())
    job_ids = [record.partition(SEPARATOR.encode())[0] for record in records]
    lines = Counter(job_ids) if len(set(job_ids)) < len(job_ids) else {}
    known = {} if known is None else known
    found = dict[bytes, Job | None]()
    for record in dict(zip(job_ids, records, strict=True)).values():
        digest = blake2b(record, digest_size=16).digest()
        found[digest] = known[digest] if digest in known else job_of(record.decode(errors="replace"))
    known.clear()
    known.update(found)
    jobs = filter(None, found.values())
    return tuple(job._replace(tasks=lines.get(job.job_id.encode(), 1)) if job.is_array else job for job in jobs)


def parse_task_limits(text: bytes) -> dict[str, int]:
    """Return how many tasks of each limited array may run at once, from squeue's answer to ARRAYS_ARGUMENTS."""
    lines = rows_of_squeue(text)
    rows = (line.decode(errors="replace").partition(SEPARATOR_TEXT) for line in lines if b"%" in line)
    return {job_id: limit for job_id, _, tasks in rows if (limit := throttle(tasks))}


def with_factors(jobs: tuple[Job, ...], text: bytes) -> tuple[Job, ...]:
    """Return the jobs with `priority_is_set` and `fair_share`, from sprio's answer to FACTORS_ARGUMENTS.

    sprio prints no factors of a job whose priority an admin has set. It prints a line for each partition of a job.
    """
    shown = text.decode(errors="replace")
    is_set = set(_LISTED.findall(shown)) - set(_COMPUTED.findall(shown))
    fair_share = {job_id: int(value) for job_id, value in _FAIR_SHARE.findall(shown) if value != "0"}
    if not is_set and not fair_share:
        return jobs
    found = []
    for job in jobs:
        job_is_set = job.job_id in is_set and job.priority >= LEAST_SET_PRIORITY
        if job_is_set or job.job_id in fair_share:
            job = job._replace(priority_is_set=job_is_set, fair_share=fair_share.get(job.job_id, 0))
        found.append(job)
    return tuple(found)


def keep_unlisted(jobs: tuple[Job, ...], text: bytes, now_s: int) -> tuple[Job, ...]:
    """Return the jobs; those that sprio's answer does not list are alone in a class, so that they keep their place."""
    listed = set(_LISTED.findall(text.decode(errors="replace")))
    return tuple(
        job._replace(priority_class=job.job_id) if job.is_waiting(now_s) and job.job_id not in listed else job
        for job in jobs
    )


def job_of(record: str) -> Job | None:
    """Return the job of one record, None if it is cut off."""
    row = record.split(SEPARATOR, len(SQUEUE_COLUMNS) - 1)
    return _job_of_row(row) if len(row) == len(SQUEUE_COLUMNS) else None


def _job_of_row(row: list[str]) -> Job:
    # Most of these texts are the same in many jobs; each is kept once.
    row[3:8], row[23:25], row[-2:] = map(intern, row[3:8]), map(intern, row[23:25]), map(intern, row[-2:])
    job_id, array_id, het_id, state, reason, user, account, partition = row[:8]
    priority, nice, nodes, cpus, tasks, share, limit, submit, eligible = row[8:17]
    start, end, hosts, planned, dependency, reservation, qos, min_cpus = row[17:25]
    memory, total, licences, feature, required, per_job, per_node, per_socket, per_task = row[25:34]
    deadline, comment, name = row[34:]
    number, least_mib = count(priority), memory_mib(memory)
    terms = RequestTerms(
        partitions=partition,
        nodes=count(nodes),
        tasks=count(tasks),
        cpus=count(cpus),
        min_cpus=count(min_cpus),
        memory_mib=least_mib,
        memory_per_cpu=is_per_cpu(least_mib, total, count(cpus)),
        features=feature,
        reservation=reservation,
        qos=qos,
        hosts=required,
        excluded="",
        licences=licences,
        whole_nodes=share == "NO",
        per_job=per_job,
        per_node=per_node,
        per_socket=per_socket,
        per_task=per_task,
    )
    request, problem = parse_request(terms)
    array = array_id.partition("_")[0] if "_" in array_id else ""
    return Job(
        job_id=job_id,
        state=job_state(state, reason, number),
        native_state=state,
        reason=plain(reason),
        user=user,
        account=plain(account),
        name=name,
        comment=plain(comment),
        partitions=parts(partition),
        request=request,
        reservation=plain(reservation),
        qos=plain(qos),
        priority=number,
        offset=-int(nice) if nice not in NOTHING else 0,
        nodes=count(nodes),
        cpus=count(cpus),
        whole_nodes=share == "NO",
        limit_s=limit_s(limit),
        submit_s=unix_s(submit) or 0,
        begin_s=unix_s(eligible),
        start_s=unix_s(start),
        end_s=unix_s(end),
        hosts=hosts or plain(planned),
        plain=array in ("", job_id) and het_id in NOTHING and dependency in NOTHING,
        array_id=array,
        request_problem=problem,
        deadline_s=unix_s(deadline),
    )


def jobs_of_json(answer: bytes, *, source: str) -> tuple[Job, ...]:
    """Return the jobs of the answer. Raises CannotAskSlurm as in `json_records`. A missing field counts as empty."""
    return tuple(map(_job_of_json, json_records(answer, "jobs", source=source)))


def _job_of_json(record: Record) -> Job:
    state = select_state(get_list(record, "job_state"))
    reason = get_text(record, "state_description") or get_text(record, "state_reason")
    priority = get_number(record, "priority") or 0
    limit_min = get_number(record, "time_limit")
    job_id, array_id = (str(get_number(record, name) or "") for name in ("job_id", "array_job_id"))
    tasks, (request, problem) = get_text(record, "array_task_string"), _request_of_json(record)
    waits_as_array = array_id == job_id and bool(tasks)
    return Job(
        job_id=job_id,
        state=job_state(state, reason, priority),
        native_state=state,
        reason=plain(reason),
        user=get_text(record, "user_name"),
        account=plain(get_text(record, "account")),
        name=get_text(record, "name"),
        comment=plain(get_text(record, "comment")),
        partitions=parts(get_text(record, "partition")),
        request=request,
        reservation=get_text(record, "resv_name"),
        qos=plain(get_text(record, "qos")),
        priority=priority,
        offset=-(get_number(record, "nice") or 0),
        nodes=get_number(record, "node_count") or 0,
        cpus=get_number(record, "cpus") or 0,
        whole_nodes=_is_exclusive(record),
        limit_s=None if limit_min is None else bounded_limit_s(60 * limit_min),
        submit_s=get_time_s(record, "submit_time") or 0,
        begin_s=get_time_s(record, "eligible_time"),
        start_s=get_time_s(record, "start_time"),
        end_s=get_time_s(record, "end_time"),
        hosts=get_text(record, "nodes") or get_text(record, "scheduled_nodes"),
        plain=array_id in ("", job_id)
        and not get_number(record, "het_job_id")
        and get_text(record, "dependency") in NOTHING,
        array_id=array_id,
        tasks=count_tasks(tasks) if waits_as_array else 1,
        task_limit=(get_number(record, "array_max_tasks") or 0) if waits_as_array else 0,
        request_problem=problem,
        deadline_s=get_time_s(record, "deadline"),
    )


def _is_exclusive(record: Record) -> bool:
    return "none" in get_list(record, "shared") or "true" in get_list(record, "exclusive")


def _request_of_json(record: Record) -> tuple[Request | None, str]:
    per_node_mib, per_cpu_mib = (get_number(record, f"memory_per_{what}") or 0 for what in ("node", "cpu"))
    return parse_request(
        RequestTerms(
            partitions=get_text(record, "partition"),
            nodes=get_number(record, "node_count") or 0,
            tasks=get_number(record, "tasks") or 0,
            cpus=get_number(record, "cpus") or 0,
            min_cpus=get_number(record, "minimum_cpus_per_node") or 0,
            memory_mib=per_node_mib or per_cpu_mib,
            memory_per_cpu=not per_node_mib and per_cpu_mib > 0,
            features=get_text(record, "features"),
            reservation=get_text(record, "resv_name"),
            qos=get_text(record, "qos"),
            hosts=get_text(record, "required_nodes"),
            excluded=get_text(record, "excluded_nodes"),
            licences=get_text(record, "licenses"),
            whole_nodes=_is_exclusive(record),
            per_job=get_text(record, "tres_per_job"),
            per_node=get_text(record, "tres_per_node"),
            per_socket=get_text(record, "tres_per_socket"),
            per_task=get_text(record, "tres_per_task"),
        )
    )
