"""Parses the jobs of Torque's `qstat -x -t`, and changes their begin time, priority or position in the queue.

Each job is one record; the tasks of an array are jobs of their own. How jobs change their positions depends on the
scheduler that starts them and on the key by which it sorts. `qalter -a` sets the time before which a job does not
start: the server puts the job into the state W, which the scheduler does not look at, and releases it by itself. A hold
would stay for ever if the agent died first, and could not be distinguished from a hold of the owner or of an admin.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from offpeak.settings.schedulers import PbsSettings
from plugin.pbs.commands import PbsCommands, invalid_job_numbers, tell_by_value, tell_jobs
from plugin.pbs.fields import (
    HINTS_VARIABLE,
    as_int,
    has_dependency,
    hints_comment,
    hosts_of,
    limit_s,
    xml_fields,
    xml_records,
)
from plugin.pbs.jobs import PbsJob
from plugin.pbs.resource_request import TaskRequest, chunks_of, cpu_count, fewest_nodes, parse_tasks
from plugin.scheduler.job import HOLDING, Job, JobState

STATES = {
    "C": JobState.ENDED,
    "E": JobState.ENDS,
    "H": JobState.HELD,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    # It waits for its time, after which the server lets it go by itself.
    "W": JobState.PENDING,
}


def job_state(letter: str) -> JobState:
    """Return the state that Torque's letter stands for; OTHER if it is not known."""
    return STATES.get(letter, JobState.OTHER)


QSTAT_ARGUMENTS = ("-x", "-t")
QSELECT_ON_NODES = ("-s", ".ne.CHQW")
"""Selects the jobs that may have nodes: qselect does not take the letter S of suspended jobs."""

_NO_NEEDS = frozenset({"walltime", "cput", "neednodes", "nodect", "hostlist", "task_usage"})
_COUNTED_RESOURCES = frozenset({"nodes", "procs", "ncpus"})
_WHOLE_NODE_POLICIES = frozenset({"singlejob", "singletask"})
_HINTS = re.compile(rf"(?:^|(?<!\\),){HINTS_VARIABLE}=((?:[^,\\]|\\.)*)", re.DOTALL)


def jobs_of_xml(answer: bytes) -> tuple[PbsJob, ...]:
    """Return the jobs of qstat's answer; CannotAskPbs where it is no XML."""
    return tuple(_job(element) for element in xml_records(answer, "Job", source="qstat -x"))


def request_of(wants: dict[str, str], told: dict[str, str]) -> TaskRequest:
    """Return what a job asks for by its Resource_List, else by its req_information."""
    whole = wants.get("naccesspolicy", "").lower() in _WHOLE_NODE_POLICIES
    if not _COUNTED_RESOURCES & wants.keys() and (asked := parse_tasks(told)):
        return asked
    if "nodes" in wants and not wants["nodes"].startswith("ALL"):
        return TaskRequest(wants["nodes"], apart=True, whole=whole)
    if "procs" in wants:
        return TaskRequest(f"{as_int(wants['procs']) or 1}:ppn=1", apart=False, whole=whole)
    return TaskRequest(f"1:ppn={as_int(wants.get('ncpus')) or 1}", apart=True, whole=whole)


def _job(element: ElementTree.Element) -> PbsJob:
    told = xml_fields(element)
    wants, tasks = _below(element, "Resource_List"), _below(element, "req_information")
    state = job_state(told.get("job_state", ""))
    asked = request_of(wants, tasks)
    hosts = hosts_of(told.get("exec_host", ""))
    limit = limit_s(wants.get("walltime"))
    start_s = as_int(told.get("start_time")) if state in HOLDING or state is JobState.ENDED else 0
    end_s = as_int(told.get("comp_time")) or (start_s + limit if start_s and limit else 0)
    depend = told.get("depend", "")
    job = Job(
        job_id=told.get("Job_Id", ""),
        state=state,
        native_state=told.get("job_state", ""),
        reason=_reason(told, state, depend),
        user=told.get("euser") or told.get("Job_Owner", "").partition("@")[0],
        account=told.get("Account_Name", ""),
        name=told.get("Job_Name", ""),
        comment=_comment(told.get("Variable_List", "")),
        partitions=(told["queue"],) if told.get("queue") else (),
        needs="\x1f".join([*_needs(wants), *([] if _COUNTED_RESOURCES & wants.keys() else _needs(tasks))]),
        reservation="",
        qos=wants.get("qos", ""),
        priority=as_int(told.get("Priority")),
        offset=0,
        nodes=len(hosts) or as_int(wants.get("nodect")) or fewest_nodes(asked),
        cpus=cpu_count(chunks_of(asked.request)),
        whole_nodes=asked.whole,
        limit_s=limit,
        submit_s=as_int(told.get("ctime")),
        begin_s=as_int(told.get("Execution_Time")) or None,
        start_s=start_s or None,
        end_s=end_s or None,
        hosts=",".join(hosts),
        plain=not (has_dependency(depend) or "[" in told.get("Job_Id", "")),
    )
    return PbsJob(job, asked.request, asked.apart, as_int(told.get("queue_rank")))


def _below(element: ElementTree.Element, name: str) -> dict[str, str]:
    found = element.find(name)
    return {} if found is None else xml_fields(found)


def _needs(wants: dict[str, str]) -> list[str]:
    """Return what decides on which nodes the job can run: not for how long it does, and where it is placed by now."""
    return [f"{name}={value}" for name, value in sorted(wants.items()) if name.partition(".")[0] not in _NO_NEEDS]


def _reason(told: dict[str, str], state: JobState, depend: str) -> str:
    if state is JobState.HELD:
        return f"Dependency: {depend}" if has_dependency(depend) else f"JobHeld: {told.get('Hold_Types') or '?'}"
    return told.get("comment", "")


def _comment(variables: str) -> str:
    # Of most jobs nothing is to be said, and an environment may be long.
    if f"{HINTS_VARIABLE}=" not in variables:
        return ""
    match = _HINTS.search(variables)
    return hints_comment(match[1].replace("\\", "")) if match else ""


AUTO = "auto"
SCHED_CONFIG = Path("sched_priv", "sched_config")
PROC = Path("/proc")
OTHER_SCHEDULERS = ("maui", "moab")
"""Schedulers of their own, which do not read sched_config."""

_SORT_BY = re.compile(r"^\s*sort_by\s*:\s*(\w+)", re.MULTILINE)


class ReorderMethod(StrEnum):
    """PRIORITY: `qalter -p`. SWAP: `qorder`, which exchanges two places of the queue. NONE: nobody is moved."""

    PRIORITY = "priority"
    SWAP = "swap"
    NONE = "none"


COMMANDS = {ReorderMethod.PRIORITY: "qalter -p", ReorderMethod.SWAP: "qorder", ReorderMethod.NONE: "nothing"}
# By what pbs_sched sorts: with the others a job's place hangs on its size, and neither of our ways moves it.
METHOD_OF_SORT = {"high_priority_first": ReorderMethod.PRIORITY, "no_sort": ReorderMethod.SWAP}


class ReorderFinding(NamedTuple):
    """The way that is right here, how that is known, and where there is no way, what to do about it."""

    route: ReorderMethod
    why: str
    hint: str = ""

    @property
    def words(self) -> str:
        """What an admin is told of it."""
        return f"{COMMANDS[self.route]}, as {self.why}"


def find_reorder_method(settings: PbsSettings, *, processes: Path = PROC) -> ReorderFinding:
    """Return the way: the settings', else by who runs here, else by what sched_config says."""
    if settings.torque_order != AUTO:
        return ReorderFinding(ReorderMethod(settings.torque_order), "torque_order says")
    if other := find_other_scheduler(processes):
        hint = 'set torque_order below [pbs]: "priority" if its USERPRIOWEIGHT is not 0, else "none"'
        return ReorderFinding(ReorderMethod.NONE, f"{other} runs here, and nobody knows by what it sorts jobs", hint)
    return _method_of_config(settings.home / SCHED_CONFIG)


def find_other_scheduler(processes: Path) -> str:
    """Return which of OTHER_SCHEDULERS runs on this machine, "" for none, or where processes of others are hidden."""
    for file in processes.glob("[0-9]*/comm"):
        try:
            name = file.read_text(errors="replace").strip()
        except OSError:
            continue
        if name in OTHER_SCHEDULERS:
            return name
    return ""


def _method_of_config(file: Path) -> ReorderFinding:
    try:
        found = _SORT_BY.search(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as problem:
        hint = "let offpeak's user read it, and see `home`; or set torque_order below [pbs], as under Maui or Moab"
        return ReorderFinding(
            ReorderMethod.NONE, f"{file}: {problem.strerror}: nobody knows by what jobs are sorted", hint
        )
    hint = f"write `sort_by: high_priority_first ALL` into {file} and restart pbs_sched; under Maui or Moab, where"
    hint += ' priorities count, set torque_order = "priority" below [pbs]'
    sort_by = found[1] if found else "nothing"
    if sort_by in METHOD_OF_SORT:
        return ReorderFinding(METHOD_OF_SORT[sort_by], f"pbs_sched sorts by {sort_by}")
    return ReorderFinding(ReorderMethod.NONE, f"pbs_sched sorts jobs by {sort_by}: their order is left as it is", hint)


LOWEST_PRIORITY, HIGHEST_PRIORITY = -1024, 1023
TOP_VALUE = 2**40
"""From it places are counted down, where a smaller one goes first."""
NO_METHOD = "Torque's scheduler sorts by neither priorities nor places"
QUEUE_MOVED = "somebody else moved the queue meanwhile"


def set_priorities(commands: PbsCommands, values: Mapping[str, int]) -> dict[str, str]:
    """Set priorities; return why not, by job."""
    refused = invalid_job_numbers(values)
    refused |= {
        job: f"priority {value} is none"
        for job, value in values.items()
        if not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY
    }
    texts = {job: str(value) for job, value in values.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-p", texts)


def position_value(rank: int) -> int:
    """Return a place in the queue as a priority, larger first."""
    return TOP_VALUE - rank


def swap_positions(commands: PbsCommands, values: Mapping[str, int], jobs: Sequence[PbsJob]) -> dict[str, str]:
    """Exchange places until each job has its value's, as far as all are places that these jobs have; return why not."""
    waiting = {each.job.job_id: each for each in jobs if each.job.state is JobState.PENDING}
    present = {job: position_value(waiting[job].rank) for job in values if job in waiting}
    wanted = {job: values[job] for job in present}
    if set(wanted.values()) != set(present.values()):
        return dict.fromkeys(wanted, QUEUE_MOVED)
    refused: dict[str, str] = {}
    for one, other in plan_swaps(present, wanted):
        said = tell_jobs(commands, "qorder", (), (one, other))
        if said:
            # What follows would lead elsewhere: the next cycle begins anew.
            return refused | dict.fromkeys(wanted, next(iter(said.values())))
    return refused


def plan_swaps(present: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Give pairs that exchange their places, never a job with itself, until all have what is wanted."""
    at = {value: job for job, value in present.items()}
    has = dict(present)
    for job in sorted(wanted, key=lambda each: -wanted[each]):
        other = at[wanted[job]]
        if other != job:
            yield job, other
            at[has[job]], at[wanted[job]] = other, job
            has[other], has[job] = has[job], wanted[job]


def qalter_time(at_s: int) -> str:
    """Return a Unix second as CCYYMMDDhhmm.SS in Greenwich's time, which is the clock of our commands."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d%H%M.%S")


def defer_jobs(commands: PbsCommands, begin_s: Mapping[str, int], now_s: int) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    refused = invalid_job_numbers(begin_s)
    # A time that is over ends a wait; PBS takes none of 1970.
    times = {job: qalter_time(max(at_s, now_s)) for job, at_s in begin_s.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-a", times)
