"""What OpenPBS prints with `-F json`: an object on many lines, tabs inside, keys in the order of real servers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from plugin.scheduler.job import JobState
from sim_backend.pbs_standin.estimate import Estimate, estimate_of
from sim_backend.pbs_standin.letters import holds_of, letter_of
from sim_backend.pbs_standin.pbs import VERSIONS, Pbs
from sim_backend.pbs_standin.times import clock, comment_time, ctime
from sim_backend.scheduler.sim_job import SimJob
from sim_backend.scheduler.sim_node import SimNode

NUMBERS = frozenset({"ncpus", "nodect", "mpiprocs", "offpeak_begin", "offpeak_prio"})


def json_text(value: Any, depth: int = 0) -> str:
    """Return a value as OpenPBS prints it: each key on a line of its own, lists on one."""
    if isinstance(value, dict):
        tabs = "\t" * (depth + 1)
        lines = [f"{tabs}{_quoted(name)}:\t{json_text(each, depth + 1)}" for name, each in value.items()]
        inside = ",\n".join(lines)
        return f"{{\n{inside}{chr(10) if lines else ''}{tabs[1:]}}}"
    if isinstance(value, list):
        return f"[{', '.join(json_text(each) for each in value)}]"
    if isinstance(value, float):
        short = f"{value:.15g}"
        return short if float(short) == value else f"{value:.17g}"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def answer_json(pbs: Pbs, now_s: float, key: str, records: Mapping[str, Any]) -> bytes:
    """Return an answer; the key is left out where there is nothing below it."""
    head = {"timestamp": int(now_s), "pbs_version": VERSIONS[pbs.kind], "pbs_server": pbs.host}
    return (json_text({**head, key: dict(records)} if records else head) + "\n").encode()


def qstat_json(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat -f -F json` prints of these jobs."""
    estimate = estimate_of(pbs, now_s)
    return answer_json(pbs, now_s, "Jobs", {pbs.job_id(job): job_record(pbs, job, now_s, estimate) for job in jobs})


def pbsnodes_json(pbs: Pbs, nodes: Iterable[SimNode], now_s: float) -> bytes:
    """Return what `pbsnodes -F json` prints of these nodes."""
    return answer_json(pbs, now_s, "nodes", {node.name: _node(pbs, node) for node in nodes})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def job_record(pbs: Pbs, job: SimJob, now_s: float, estimate: Estimate | None) -> dict[str, Any]:
    """Return all that a server tells of a job, without what it does not have."""
    ran, vnodes = job.start_s is not None, _vnodes(job.placed)
    planned = estimate if estimate is not None and estimate.job is job else None
    took_s = (job.end_s or now_s) - (job.start_s or now_s)
    listed = {name: _plain(name, value) for name, value in job.wants.items()}
    listed |= {"ncpus": job.cpus, "nodect": job.nodes, "place": job.wants.get("place", "free")}
    listed |= {"select": job.told["request"]}
    told: dict[str, Any] = {
        "Job_Name": job.name,
        "Job_Owner": f"{job.user}@{pbs.host}",
        "resources_used": {"ncpus": job.cpus, "walltime": clock(took_s)} if ran else None,
        "job_state": letter_of(pbs, job, now_s),
        "queue": job.queue,
        "server": pbs.host,
        "Account_Name": job.told.get("account") or None,
        "Checkpoint": "u",
        "ctime": ctime(job.submit_s),
        "depend": job.told.get("depend") or None,
        "exec_host": "+".join(f"{node}/0*{cpus}" for node, cpus in job.placed.items()) or None,
        "exec_vnode": vnodes or None,
        "Execution_Time": ctime(job.begin_s) if job.begin_s else None,
        "Hold_Types": holds_of(pbs, job),
        "mtime": ctime(now_s),
        "Priority": job.priority,
        "qtime": ctime(job.submit_s),
        "Rerunable": "True",
        "Resource_List": dict(sorted(listed.items())),
        "schedselect": job.told["request"],
        "stime": ctime(job.start_s) if job.start_s is not None else None,
        "obittime": ctime(job.end_s) if job.end_s is not None else None,
        "substate": 42 if job.state is JobState.RUNNING else 10,
        "Variable_List": _variables(pbs, job),
        "euser": job.user,
        "egroup": job.user,
        "queue_rank": job.rank,
        "queue_type": "E",
        "comment": _comment(pbs, job, vnodes, now_s),
        "etime": ctime(job.submit_s),
        "run_count": 1 if ran else None,
        "Exit_status": 0 if job.state is JobState.ENDED else None,
        "array_id": None if job.index is None else f"{job.number}[].{pbs.host}",
        "array_index": job.index,
        "estimated": {"exec_vnode": _vnodes(planned.placed), "start_time": ctime(planned.start_s)} if planned else None,
        "project": "_pbs_project_default",
        "topjob": "True" if planned else None,
        "Submit_Host": pbs.host,
    }
    return {name: value for name, value in told.items() if value is not None}


def _vnodes(placed: Mapping[str, int]) -> str:
    return "+".join(f"({node}:ncpus={cpus})" for node, cpus in placed.items())


def _plain(name: str, value: str) -> Any:
    return (float(value) if "." in value else int(value)) if name in NUMBERS else value


def _variables(pbs: Pbs, job: SimJob) -> dict[str, str]:
    own = dict(each.partition("=")[::2] for each in job.told["variables"].split("\x1f") if each)
    return {"PBS_O_LOGNAME": job.user, "PBS_O_QUEUE": job.queue, "PBS_O_HOST": pbs.host, **own}


def _comment(pbs: Pbs, job: SimJob, vnodes: str, now_s: float) -> str | None:
    if job.start_s is not None:
        return f"Job run at {comment_time(job.start_s)} on {vnodes}"
    begin_s = pbs.begin_of(job)
    if begin_s > max(now_s, job.begin_s):
        return f"Not Running: PBS Error: offpeak: deferred until {comment_time(begin_s)}"
    return job.comment or None


def _node(pbs: Pbs, node: SimNode) -> dict[str, Any]:
    words = ([] if node.alive or node.shown_up else ["down"]) + sorted(node.shut)
    if not words and node.cpus_used >= node.cpus:
        words = ["job-busy"]
    has: dict[str, Any] = {"arch": "linux", "host": node.name, "mem": f"{node.memory_mib // 1024}gb"}
    has |= {"ncpus": node.cpus, "vnode": node.name} | dict.fromkeys(node.features, "True")
    told: dict[str, Any] = {
        "Mom": node.name,
        "Port": 15002,
        "pbs_version": VERSIONS[pbs.kind],
        "ntype": "PBS",
        "state": ",".join(words) or "free",
        "pcpus": node.cpus,
        "queue": node.queue or None,
        "jobs": [f"{job}.{pbs.host}" for job in node.used] or None,
        "resources_available": has | ({"offpeak_node": node.mark} if node.mark else {}),
        "resources_assigned": {"ncpus": node.cpus_used} if node.used else {},
        "comment": node.note or None,
        "resv_enable": "True",
        "sharing": "default_shared",
        "license": "l",
        "last_state_change_time": node.changed_s,
        "last_used_time": node.last_used_s,
    }
    return {name: value for name, value in told.items() if value is not None}
