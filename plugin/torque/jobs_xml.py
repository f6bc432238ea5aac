"""The jobs that Torque's `qstat -x -t` tells, one record each; an array's tasks are jobs of their own."""

import re
from xml.etree import ElementTree

from plugin.pbs.request import chunks_of, cpu_count
from plugin.pbs.told_job import ToldJob
from plugin.pbs.words import CONSENT, consent_comment, hangs, hosts_of, limit_s, number
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.torque.job_states import job_state
from plugin.torque.xml_text import fields, records

ARGUMENTS = ("-x", "-t")

# They say nothing of which nodes a job can use.
_OF_TIME = frozenset({"walltime", "cput", "neednodes", "nodect"})
_WHOLE = frozenset({"singlejob", "singletask"})
_OURS = re.compile(rf"(?:^|(?<!\\),){CONSENT}=((?:[^,\\]|\\.)*)", re.DOTALL)


def jobs_of_xml(answer: bytes) -> tuple[ToldJob, ...]:
    """Return the jobs of qstat's answer; CannotAskPbs where it is no XML."""
    return tuple(_job(element) for element in records(answer, "Job", source="qstat -x"))


def request_of(wants: dict[str, str]) -> str:
    """Return what a job's Resource_List asks for, in the words of plugin.pbs.request."""
    if "nodes" in wants and not wants["nodes"].startswith("ALL"):
        return wants["nodes"]
    if "procs" in wants:
        return f"{number(wants['procs']) or 1}:ppn=1"
    return f"1:ppn={number(wants.get('ncpus')) or 1}"


def _job(element: ElementTree.Element) -> ToldJob:
    told = fields(element)
    listed = element.find("Resource_List")
    wants = {} if listed is None else fields(listed)
    state = job_state(told.get("job_state", ""))
    request = request_of(wants)
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
        needs="\x1f".join(f"{name}={value}" for name, value in sorted(wants.items()) if name not in _OF_TIME),
        reservation="",
        qos=wants.get("qos", ""),
        priority=number(told.get("Priority")),
        offset=0,
        nodes=len(hosts) or number(wants.get("nodect")) or 1,
        cpus=cpu_count(chunks_of(request)),
        whole_nodes=wants.get("naccesspolicy", "").lower() in _WHOLE,
        limit_s=limit,
        submit_s=number(told.get("ctime")),
        begin_s=number(told.get("Execution_Time")) or None,
        start_s=start_s or None,
        end_s=end_s or None,
        hosts=",".join(hosts),
        plain=not (hangs(depend) or "[" in told.get("Job_Id", "")),
    )
    return ToldJob(job, request, "procs" not in wants, number(told.get("queue_rank")))


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
