"""The jobs that Torque's `qstat -x -t` tells, one record each; an array's tasks are jobs of their own."""

import re
from xml.etree import ElementTree

from plugin.pbs.request import chunks_of, cpu_count
from plugin.pbs.told_job import ToldJob
from plugin.pbs.words import CONSENT, consent_comment, hangs, hosts_of, limit_s, number
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.torque.job_states import job_state
from plugin.torque.tasks import TaskRequest, fewest_nodes, tasks_of
from plugin.torque.xml_text import fields, records

ARGUMENTS = ("-x", "-t")
ON_NODES = ("-s", ".ne.CHQW")
"""Selects the jobs that may have nodes: qselect does not take the letter S of suspended jobs."""

_NO_NEEDS = frozenset({"walltime", "cput", "neednodes", "nodect", "hostlist", "task_usage"})
_COUNTED = frozenset({"nodes", "procs", "ncpus"})
_WHOLE = frozenset({"singlejob", "singletask"})
_OURS = re.compile(rf"(?:^|(?<!\\),){CONSENT}=((?:[^,\\]|\\.)*)", re.DOTALL)


def jobs_of_xml(answer: bytes) -> tuple[ToldJob, ...]:
    """Return the jobs of qstat's answer; CannotAskPbs where it is no XML."""
    return tuple(_job(element) for element in records(answer, "Job", source="qstat -x"))


def request_of(wants: dict[str, str], told: dict[str, str]) -> TaskRequest:
    """Return what a job asks for by its Resource_List, else by its req_information."""
    whole = wants.get("naccesspolicy", "").lower() in _WHOLE
    if not _COUNTED & wants.keys() and (asked := tasks_of(told)):
        return asked
    if "nodes" in wants and not wants["nodes"].startswith("ALL"):
        return TaskRequest(wants["nodes"], apart=True, whole=whole)
    if "procs" in wants:
        return TaskRequest(f"{number(wants['procs']) or 1}:ppn=1", apart=False, whole=whole)
    return TaskRequest(f"1:ppn={number(wants.get('ncpus')) or 1}", apart=True, whole=whole)


def _job(element: ElementTree.Element) -> ToldJob:
    told = fields(element)
    wants, tasks = _below(element, "Resource_List"), _below(element, "req_information")
    state = job_state(told.get("job_state", ""))
    asked = request_of(wants, tasks)
    hosts = hosts_of(told.get("exec_host", ""))
    limit = limit_s(wants.get("walltime"))
    start_s = number(told.get("start_time")) if state in HOLDING or state is JobState.ENDED else 0
    end_s = number(told.get("comp_time")) or (start_s + limit if start_s and limit else 0)
    depend = told.get("depend", "")
    job = Job(
        job_id=told.get("Job_Id", ""),
        state=state,
        state_word=told.get("job_state", ""),
        reason=_reason(told, state, depend),
        user=told.get("euser") or told.get("Job_Owner", "").partition("@")[0],
        account=told.get("Account_Name", ""),
        name=told.get("Job_Name", ""),
        comment=_comment(told.get("Variable_List", "")),
        partitions=(told["queue"],) if told.get("queue") else (),
        needs="\x1f".join([*_needs(wants), *([] if _COUNTED & wants.keys() else _needs(tasks))]),
        reservation="",
        qos=wants.get("qos", ""),
        priority=number(told.get("Priority")),
        offset=0,
        nodes=len(hosts) or number(wants.get("nodect")) or fewest_nodes(asked),
        cpus=cpu_count(chunks_of(asked.request)),
        whole_nodes=asked.whole,
        limit_s=limit,
        submit_s=number(told.get("ctime")),
        begin_s=number(told.get("Execution_Time")) or None,
        start_s=start_s or None,
        end_s=end_s or None,
        hosts=",".join(hosts),
        plain=not (hangs(depend) or "[" in told.get("Job_Id", "")),
    )
    return ToldJob(job, asked.request, asked.apart, number(told.get("queue_rank")))


def _below(element: ElementTree.Element, name: str) -> dict[str, str]:
    found = element.find(name)
    return {} if found is None else fields(found)


def _needs(wants: dict[str, str]) -> list[str]:
    """Return what decides on which nodes the job can run: not for how long it does, and where it is placed by now."""
    return [f"{name}={value}" for name, value in sorted(wants.items()) if name.partition(".")[0] not in _NO_NEEDS]


def _reason(told: dict[str, str], state: JobState, depend: str) -> str:
    if state is JobState.HELD:
        return f"Dependency: {depend}" if hangs(depend) else f"JobHeld: {told.get('Hold_Types') or '?'}"
    return told.get("comment", "")


def _comment(variables: str) -> str:
    # Of most jobs nothing is to be said, and an environment may be long.
    if f"{CONSENT}=" not in variables:
        return ""
    match = _OURS.search(variables)
    return consent_comment(match[1].replace("\\", "")) if match else ""
