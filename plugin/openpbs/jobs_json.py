"""The jobs that OpenPBS's `qstat -t -f -F json` tells, one record each; an array's tasks are jobs of their own."""

import re
from collections.abc import Callable

from plugin.openpbs.answer_json import Record, answer_of, part, records
from plugin.openpbs.job_states import job_state
from plugin.openpbs.resources import BEGIN, OURS, PRIO, SCALE
from plugin.pbs.request import chunks_of, cpu_count
from plugin.pbs.told_job import ToldJob
from plugin.pbs.words import CONSENT, consent_comment, ctime_s, hangs, hosts_of, limit_s, number, text
from plugin.scheduler.job import HOLDING, Job, JobState

ARGUMENTS = ("-t", "-f", "-F", "json")
ENDED_TOO = "-x"
"""Adds the jobs that have ended. A server that keeps no history shows no job at all with it, not even one that runs."""
HISTORY = "job_history_enable"
ON_NODES = ("-T", "-s", "ERSTU")
"""Selects the jobs that may have nodes, and of an array such subjobs. With -T the server takes no other operator."""

_JOB_ID = re.compile(r"^Job Id: (.+)$", re.MULTILINE)
_PLACE = re.compile(r"^    (job_state|exec_vnode|exec_host) = (.*)$", re.MULTILINE)

SiteValue = Callable[[Record], float]
"""What the site's own formula says of a job's record, without us."""

_OF_TIME = OURS | {"walltime", "min_walltime", "max_walltime", "cput"}


def jobs_of_json(answer: bytes, site_value: SiteValue) -> tuple[ToldJob, ...]:
    """Return the jobs of qstat's answer; CannotAskPbs where it is no JSON."""
    found = records(answer_of(answer, source="qstat -f -F json"), "Jobs")
    split = {text(job.get("array_id")) for job in found.values() if "array_id" in job}
    # An array is told once more as a whole.
    return tuple(_job(name, job, site_value) for name, job in found.items() if name not in split)


def placed_jobs_of_text(answer: bytes) -> tuple[ToldJob, ...]:
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
    """Return what a job asks for, in the words of plugin.pbs.request."""
    wants = part(told, "Resource_List")
    return text(told.get("schedselect") or wants.get("select")) or f"1:ncpus={number(wants.get('ncpus')) or 1}"


def _job(name: str, told: Record, site_value: SiteValue) -> ToldJob:
    wants, estimated = part(told, "Resource_List"), part(told, "estimated")
    state = job_state(text(told.get("job_state")))
    request, place = request_of(told), text(wants.get("place"))
    hosts = hosts_of(text(told.get("exec_vnode") or told.get("exec_host")))
    limit = limit_s(wants.get("walltime", wants.get("max_walltime")))
    has_started = state in HOLDING or state is JobState.ENDED
    start_s = ctime_s(text(told.get("stime"))) if has_started else None
    end_s = ctime_s(text(told.get("obittime"))) or (start_s + limit if start_s and limit else None)
    if state is JobState.PENDING and estimated:
        start_s, hosts = ctime_s(text(estimated.get("start_time"))), hosts_of(text(estimated.get("exec_vnode")))
    depend, offset = text(told.get("depend")), _offset(wants)
    job = Job(
        job_id=name,
        state=state,
        state_word=text(told.get("job_state")),
        reason=_reason(told, state, depend),
        user=text(told.get("euser")) or text(told.get("Job_Owner")).partition("@")[0],
        account=text(told.get("Account_Name")),
        name=text(told.get("Job_Name")),
        comment=_comment(part(told, "Variable_List")),
        partitions=(text(told["queue"]),) if "queue" in told else (),
        needs="\x1f".join(f"{key}={value}" for key, value in sorted(wants.items()) if key not in _OF_TIME),
        reservation=text(told.get("reserve_ID")),
        qos="",
        priority=round(site_value(told) * SCALE) + offset,
        offset=offset,
        nodes=len(hosts) or number(wants.get("nodect")) or 1,
        cpus=number(wants.get("ncpus")) or cpu_count(chunks_of(request)),
        whole_nodes="excl" in place,
        limit_s=limit,
        submit_s=ctime_s(text(told.get("ctime"))) or 0,
        begin_s=max(number(wants.get(BEGIN)), ctime_s(text(told.get("Execution_Time"))) or 0) or None,
        start_s=start_s,
        end_s=end_s,
        hosts=",".join(hosts),
        plain=not (hangs(depend) or "array_id" in told or "array" in told),
    )
    return ToldJob(job, request, "scatter" in place, number(told.get("queue_rank")))


def _offset(wants: Record) -> int:
    value = wants.get(PRIO)
    return round(value * SCALE) if isinstance(value, int | float) else 0


def _reason(told: Record, state: JobState, depend: str) -> str:
    if state is JobState.HELD:
        return f"Dependency: {depend}" if hangs(depend) else f"JobHeld: {text(told.get('Hold_Types')) or '?'}"
    return text(told.get("comment"))


def _comment(variables: Record) -> str:
    return consent_comment(text(variables[CONSENT])) if CONSENT in variables else ""
