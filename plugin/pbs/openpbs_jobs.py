"""Parses the jobs of OpenPBS's `qstat -t -f -F json`, and changes their rank and begin time.

Each job is one record; the tasks of an array are jobs of their own.
"""

import re
from collections.abc import Callable, Mapping

from plugin.pbs.commands import PbsCommands, invalid_job_numbers, tell_by_value
from plugin.pbs.fields import (
    HINTS_VARIABLE,
    Record,
    as_int,
    as_text,
    ctime_s,
    has_dependency,
    hints_comment,
    hosts_of,
    json_part,
    json_records,
    limit_s,
    parse_json,
)
from plugin.pbs.jobs import PbsJob
from plugin.pbs.openpbs_server import BEGIN_RESOURCE, FORMULA_SCALE, OUR_RESOURCES, PRIORITY_RESOURCE
from plugin.pbs.resource_request import chunks_of, cpu_count
from plugin.scheduler.job import HOLDING, Job, JobState

STATES = {
    # An array of which some have begun.
    "B": JobState.RUNNING,
    "E": JobState.ENDS,
    "F": JobState.ENDED,
    "H": JobState.HELD,
    "M": JobState.ENDED,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
    # It waits for its time, after which the server lets it go by itself.
    "W": JobState.PENDING,
    "X": JobState.ENDED,
}


def job_state(letter: str) -> JobState:
    """Return the state that OpenPBS's letter stands for; OTHER if it is not known."""
    return STATES.get(letter, JobState.OTHER)


QSTAT_ARGUMENTS = ("-t", "-f", "-F", "json")
WITH_ENDED_JOBS = "-x"
"""Adds the jobs that have ended. A server that keeps no history shows no job at all with it, not even one that runs."""
HISTORY = "job_history_enable"
QSELECT_ON_NODES = ("-T", "-s", "ERSTU")
"""Selects the jobs that may have nodes, and of an array such subjobs. With -T the server takes no other operator."""

_JOB_ID = re.compile(r"^Job Id: (.+)$", re.MULTILINE)
_PLACE = re.compile(r"^    (job_state|exec_vnode|exec_host) = (.*)$", re.MULTILINE)

SiteValue = Callable[[Record], float]
"""What the site's own formula says of a job's record, without us."""

_TIME_RESOURCES = OUR_RESOURCES | {"walltime", "min_walltime", "max_walltime", "cput"}


def jobs_of_json(answer: bytes, site_value: SiteValue) -> tuple[PbsJob, ...]:
    """Return the jobs of qstat's answer; CannotAskPbs where it is no JSON."""
    found = json_records(parse_json(answer, source="qstat -f -F json"), "Jobs")
    split = {as_text(job.get("array_id")) for job in found.values() if "array_id" in job}
    # An array is told once more as a whole.
    return tuple(_job(name, job, site_value) for name, job in found.items() if name not in split)


def placed_jobs_of_text(answer: bytes) -> tuple[PbsJob, ...]:
    """Return the states and nodes of the jobs that `qstat -f JOB...` prints; with -F json it prints the first job only.

    A user can put lines into the environment that look like those of another job. So what is said twice adds nodes,
    and a job with two states may have nodes.
    """
    pieces = _JOB_ID.split(answer.decode(errors="replace").replace("\n\t", ""))[1:]
    states: dict[str, set[str]] = {}
    places: dict[str, list[str]] = {}
    for name, rest in zip(pieces[::2], pieces[1::2], strict=True):
        for field, value in _PLACE.findall(rest):
            if field == "job_state":
                states.setdefault(name, set()).add(value)
            else:
                places.setdefault(name, []).append(value)
    found = {name: "".join(letters) if len(letters) == 1 else "" for name, letters in states.items()}
    records = {
        name: {"job_state": state, "exec_vnode": "+".join(places.get(name, []))} for name, state in found.items()
    }
    return tuple(_job(name, record, lambda _: 0.0) for name, record in records.items())


def request_of(told: Record) -> str:
    """Return what a job asks for, in the words of `chunks_of`."""
    wants = json_part(told, "Resource_List")
    return as_text(told.get("schedselect") or wants.get("select")) or f"1:ncpus={as_int(wants.get('ncpus')) or 1}"


def _job(name: str, told: Record, site_value: SiteValue) -> PbsJob:
    wants, estimated = json_part(told, "Resource_List"), json_part(told, "estimated")
    state = job_state(as_text(told.get("job_state")))
    request, place = request_of(told), as_text(wants.get("place"))
    hosts = hosts_of(as_text(told.get("exec_vnode") or told.get("exec_host")))
    limit = limit_s(wants.get("walltime", wants.get("max_walltime")))
    has_started = state in HOLDING or state is JobState.ENDED
    start_s = ctime_s(as_text(told.get("stime"))) if has_started else None
    end_s = ctime_s(as_text(told.get("obittime"))) or (start_s + limit if start_s and limit else None)
    if state is JobState.PENDING and estimated:
        start_s, hosts = ctime_s(as_text(estimated.get("start_time"))), hosts_of(as_text(estimated.get("exec_vnode")))
    depend, offset = as_text(told.get("depend")), _offset(wants)
    job = Job(
        job_id=name,
        state=state,
        native_state=as_text(told.get("job_state")),
        reason=_reason(told, state, depend),
        user=as_text(told.get("euser")) or as_text(told.get("Job_Owner")).partition("@")[0],
        account=as_text(told.get("Account_Name")),
        name=as_text(told.get("Job_Name")),
        comment=_comment(json_part(told, "Variable_List")),
        partitions=(as_text(told["queue"]),) if "queue" in told else (),
        needs="\x1f".join(f"{key}={value}" for key, value in sorted(wants.items()) if key not in _TIME_RESOURCES),
        reservation=as_text(told.get("reserve_ID")),
        qos="",
        priority=round(site_value(told) * FORMULA_SCALE) + offset,
        offset=offset,
        nodes=len(hosts) or as_int(wants.get("nodect")) or 1,
        cpus=as_int(wants.get("ncpus")) or cpu_count(chunks_of(request)),
        whole_nodes="excl" in place,
        limit_s=limit,
        submit_s=ctime_s(as_text(told.get("ctime"))) or 0,
        begin_s=max(as_int(wants.get(BEGIN_RESOURCE)), ctime_s(as_text(told.get("Execution_Time"))) or 0) or None,
        start_s=start_s,
        end_s=end_s,
        hosts=",".join(hosts),
        plain=not (has_dependency(depend) or "array_id" in told or "array" in told),
    )
    return PbsJob(job, request, "scatter" in place, as_int(told.get("queue_rank")))


def _offset(wants: Record) -> int:
    value = wants.get(PRIORITY_RESOURCE)
    return round(value * FORMULA_SCALE) if isinstance(value, int | float) else 0


def _reason(told: Record, state: JobState, depend: str) -> str:
    if state is JobState.HELD:
        return (
            f"Dependency: {depend}" if has_dependency(depend) else f"JobHeld: {as_text(told.get('Hold_Types')) or '?'}"
        )
    return as_text(told.get("comment"))


def _comment(variables: Record) -> str:
    return hints_comment(as_text(variables[HINTS_VARIABLE])) if HINTS_VARIABLE in variables else ""


def rank_jobs(commands: PbsCommands, offsets: Mapping[str, int]) -> dict[str, str]:
    """Set what is added to the site's formula; return why not, by job."""
    return _set_resources(
        commands, {job: f"{PRIORITY_RESOURCE}={value / FORMULA_SCALE:.3f}" for job, value in offsets.items()}
    )


def defer_jobs(commands: PbsCommands, begin_s: Mapping[str, int]) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    return _set_resources(commands, {job: f"{BEGIN_RESOURCE}={at_s}" for job, at_s in begin_s.items()})


def _set_resources(commands: PbsCommands, values: Mapping[str, str]) -> dict[str, str]:
    refused = invalid_job_numbers(values)
    wanted = {job: value for job, value in values.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-l", wanted)
