"""The output of PBS's programs: OpenPBS's `-F json` and `qstat -f`, Torque's `-x`, and both servers' plain text.

OpenPBS's JSON is an object on many lines, tabs inside, keys in the order of real servers; its `qstat -f` folds lines
behind commas of a job's variables. Torque's XML is one line, the fields in the order of real servers. In plain text
both print servers and queues with -f, and short lists.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from offpeak.model.constants import HOUR_S
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.pbs_standin.pbs import VERSIONS, Pbs, StartEstimate, estimate_of, holds_of, letter_of
from offpeak.sim_backend.scheduler.cluster import NodeResources, SimJob, SimNode

NUMBERS = frozenset({"ncpus", "nodect", "mpiprocs", "offpeak_begin", "offpeak_prio"})
WIDTH = 79
HEAD = '<?xml version="1.0"?>\n'
NAMES = {"Q": "Queued", "H": "Held", "W": "Waiting", "R": "Running", "E": "Exiting"}
Fields = Mapping[str, "str | Fields | None"]
"""Elements by name; None for one that is left out."""


def ctime(at_s: float) -> str:
    """Return a Unix second as `Fri Nov 20 21:49:35 2026`, by the clock of Greenwich."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%a %b %e %H:%M:%S %Y")


def comment_time(at_s: float) -> str:
    """Return a Unix second in the format of comments: `Fri Nov 20 at 21:49`."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%a %b %d at %H:%M")


def clock(seconds: float) -> str:
    """Return a duration as HH:MM:SS."""
    whole = int(seconds)
    return f"{whole // HOUR_S:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def json_text(value: Any, depth: int = 0) -> str:
    """Return a value as OpenPBS prints it: each key on a line of its own, lists on one."""
    if isinstance(value, dict):
        tabs = "\t" * (depth + 1)
        lines = [
            f"{tabs}{json.dumps(name, ensure_ascii=False)}:\t{json_text(each, depth + 1)}"
            for name, each in value.items()
        ]
        inside = ",\n".join(lines)
        return f"{{\n{inside}{chr(10) if lines else ''}{tabs[1:]}}}"
    if isinstance(value, list):
        return f"[{', '.join(json_text(each) for each in value)}]"
    if isinstance(value, float):
        short = f"{value:.15g}"
        return short if float(short) == value else f"{value:.17g}"
    return json.dumps(value, ensure_ascii=False)


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
    return answer_json(pbs, now_s, "nodes", {node.name: _openpbs_node(pbs, node, now_s) for node in nodes})


def job_record(pbs: Pbs, job: SimJob, now_s: float, estimate: StartEstimate | None) -> dict[str, Any]:
    """Return the attributes of a job that a server shows."""
    ran, vnodes = job.start_s is not None, vnodes_text(job.placed)
    planned = estimate if estimate is not None and estimate.job is job else None
    took_s = (job.end_s or now_s) - (job.start_s or now_s)
    listed: dict[str, Any] = dict(job.wants)
    for name in NUMBERS & listed.keys():
        listed[name] = float(listed[name]) if "." in listed[name] else int(listed[name])
    listed |= {"ncpus": job.cpus, "nodect": job.nodes, "place": job.wants.get("place", "free")}
    listed |= {"select": job.attributes["request"]}
    own = {}
    for part in filter(None, job.attributes["variables"].split("\x1f")):
        name, sign, value = part.partition("=")
        own[name] = value if sign else None
    comment = job.comment or None
    if job.start_s is not None:
        comment = f"Job run at {comment_time(job.start_s)} on {vnodes}"
    elif (begin_s := pbs.begin_of(job)) > max(now_s, job.begin_s):
        comment = f"Not Running: PBS Error: offpeak: deferred until {comment_time(begin_s)}"
    attributes: dict[str, Any] = {
        "Job_Name": job.name,
        "Job_Owner": f"{job.user}@{pbs.host}",
        "resources_used": {"ncpus": job.cpus, "walltime": clock(took_s)} if ran else None,
        "job_state": letter_of(pbs, job, now_s),
        "queue": job.queue,
        "server": pbs.host,
        "Account_Name": job.attributes.get("account") or None,
        "Checkpoint": "u",
        "ctime": ctime(job.submit_s),
        "depend": job.attributes.get("depend") or None,
        "exec_host": "+".join(f"{node}/0*{share.cores}" for node, share in job.placed.items()) or None,
        "exec_vnode": vnodes or None,
        "Execution_Time": ctime(job.begin_s) if job.begin_s else None,
        "Hold_Types": holds_of(pbs, job),
        "mtime": ctime(now_s),
        "Priority": job.priority,
        "qtime": ctime(job.submit_s),
        "Rerunable": str(job.may_be_requeued),
        "Resource_List": dict(sorted(listed.items())),
        "schedselect": job.attributes["request"],
        "stime": ctime(job.start_s) if job.start_s is not None else None,
        "obittime": ctime(job.end_s) if job.end_s is not None else None,
        "substate": 42 if job.state is JobState.RUNNING else 10,
        "Variable_List": {"PBS_O_LOGNAME": job.user, "PBS_O_QUEUE": job.queue, "PBS_O_HOST": pbs.host, **own},
        "euser": job.user,
        "egroup": job.user,
        "queue_rank": job.rank,
        "queue_type": "E",
        "comment": comment,
        "etime": ctime(job.submit_s),
        "run_count": 1 + job.restarts if ran else None,
        "Exit_status": 0 if job.state is JobState.ENDED else None,
        # A real server shows the array of a task only once the task has started.
        "array_id": None if job.index is None or job.start_s is None else f"{job.number}[].{pbs.host}",
        "array_index": None if job.start_s is None else job.index,
        "estimated": {"exec_vnode": vnodes_text(planned.placed), "start_time": ctime(planned.start_s)}
        if planned
        else None,
        "project": "_pbs_project_default",
        "topjob": "True" if planned else None,
        "Submit_Host": pbs.host,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def vnodes_text(placed: Mapping[str, NodeResources]) -> str:
    """Return nodes with their processors as `(n1:ncpus=4)+(n2:ncpus=2)`."""
    return "+".join(f"({node}:ncpus={share.cores})" for node, share in placed.items())


def _openpbs_node(pbs: Pbs, node: SimNode, now_s: float) -> dict[str, Any]:
    states = ["state-unknown"] if node.forgotten else []
    states += ([] if node.alive or node.shown_up else ["down"]) + sorted(node.shut)
    reservations = [each for each in pbs.reservations.values() if node.name in each.placed]
    begun = [each for each in reservations if each.has_begun(now_s)]
    states += ["resv-exclusive"] if any("excl" in each.wants.get("place", "") for each in begun) else []
    cpus_assigned = node.cpus_used + sum(each.placed[node.name].cores for each in begun)
    if not states and node.cpus_used >= node.cpus:
        states = ["job-busy"]
    has: dict[str, Any] = {"arch": "linux", "host": node.name, "mem": f"{node.memory_mib // 1024}gb"}
    has |= {"ncpus": node.cpus, "vnode": node.name} | dict.fromkeys(node.features, "True")
    attributes: dict[str, Any] = {
        "Mom": node.name,
        "Port": 15002,
        "pbs_version": VERSIONS[pbs.kind],
        "ntype": "PBS",
        "state": ",".join(states) or "free",
        "pcpus": node.cpus,
        "queue": ",".join(node.partitions) or None,
        "jobs": [f"{job}.{pbs.host}" for job in node.used] or None,
        "resv": ", ".join(each.name for each in reservations) or None,
        "resources_available": has | ({"offpeak_node": node.mark} if node.mark else {}),
        "resources_assigned": {"ncpus": cpus_assigned} if cpus_assigned else {},
        "comment": node.note or None,
        "resv_enable": "True",
        "sharing": "default_shared",
        "license": "l",
        "last_state_change_time": node.changed_s,
        "last_used_time": node.last_used_s,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def qstat_text(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat -f` prints of these jobs."""
    estimate = estimate_of(pbs, now_s)
    return b"".join(
        "\n".join([f"Job Id: {pbs.job_id(job)}", *_lines(job_record(pbs, job, now_s, estimate)), "", ""]).encode()
        for job in jobs
    )


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if name == "Variable_List":
            entries = (key if each is None else f"{key}={each}" for key, each in value.items())
            yield folded(f"    {name} = " + ",".join(entries))
        elif isinstance(value, dict):
            yield from (f"    {name}.{key} = {each}" for key, each in value.items())
        else:
            yield f"    {name} = {value}"


def folded(line: str) -> str:
    """Return the line on several, each but the first behind a tab, none wider than a terminal unless one word is."""
    rows = [""]
    for part in line.replace(",", ",\0").split("\0"):
        if rows[-1] and len(rows[-1]) + len(part) > WIDTH:
            rows.append("\t")
        rows[-1] += part
    return "\n".join(rows)


def qstat_xml(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return the output of `qstat -x` for these jobs, empty without jobs."""
    text = "".join(f"<Job>{_xml(_torque_job(pbs, job, now_s))}</Job>" for job in jobs)
    return f"{HEAD}<Data>{text}</Data>\n".encode() if text else b""


def pbsnodes_xml(pbs: Pbs, nodes: Iterable[SimNode], now_s: float) -> bytes:
    """Return what `pbsnodes -x` prints of these nodes."""
    text = "".join(f"<Node>{_xml(_torque_node(pbs, node, now_s))}</Node>" for node in nodes)
    return f"<Data>{text}</Data>\n".encode()


def _xml(fields: Fields) -> str:
    return "".join(
        f"<{name}>{_xml(value) if isinstance(value, Mapping) else escape(value, {chr(34): '&quot;'})}</{name}>"
        for name, value in fields.items()
        if value is not None
    )


def _torque_job(pbs: Pbs, job: SimJob, now_s: float) -> Fields:
    took_s = (job.end_s or now_s) - (job.start_s or now_s)
    counted = {} if job.tasks else {"nodect": str(job.nodes), "neednodes": job.wants.get("nodes")}
    variables = job.attributes["variables"].split("\x1f")
    own = [part.replace("\\", "\\\\").replace(",", "\\,") for part in variables if part]
    return {
        "Job_Id": pbs.job_id(job),
        "Job_Name": job.name if job.index is None else f"{job.name}-{job.index}",
        "Job_Owner": f"{job.user}@{pbs.host}",
        "resources_used": None if job.start_s is None else {"cput": "00:00:00", "walltime": clock(took_s)},
        "job_state": letter_of(pbs, job, now_s),
        "queue": job.queue,
        "server": pbs.host,
        "Account_Name": job.attributes.get("account") or None,
        "Checkpoint": "u",
        "ctime": str(job.submit_s),
        "depend": job.attributes.get("depend") or None,
        "exec_host": "+".join(f"{node}/0-{share.cores - 1}" for node, share in job.placed.items()) or None,
        "Execution_Time": str(job.begin_s) if job.begin_s else None,
        "Hold_Types": holds_of(pbs, job),
        "mtime": str(int(now_s)),
        "Priority": str(job.priority),
        "qtime": str(job.submit_s),
        "Rerunable": str(job.may_be_requeued),
        "Resource_List": {**job.wants, **counted},
        "substate": "42" if job.state is JobState.RUNNING else "10",
        "Variable_List": ",".join([f"PBS_O_QUEUE={job.queue}", f"PBS_O_LOGNAME={job.user}", *own]),
        "euser": job.user,
        "egroup": job.user,
        "queue_rank": str(job.rank),
        "queue_type": "E",
        "comment": job.comment or (f"Job started on {comment_time(job.start_s)}" if job.start_s else None),
        "etime": None if holds_of(pbs, job) != "n" else str(job.submit_s),
        "exit_status": "0" if job.state is JobState.ENDED else None,
        "req_information": job.tasks or None,
        "job_array_id": None if job.index is None else str(job.index),
        "start_time": str(int(job.start_s)) if job.start_s is not None else None,
        "comp_time": str(int(job.end_s)) if job.end_s is not None else None,
    }


def _torque_node(pbs: Pbs, node: SimNode, now_s: float) -> Fields:
    states = ([] if node.alive or node.shown_up else ["down"]) + sorted(node.shut)
    if node.cpus_used >= node.cpus:
        states.append("job-exclusive")
    slots, first = [], 0
    for job, share in node.used.items():
        slots.append(f"{first}{f'-{first + share.cores - 1}' if share.cores > 1 else ''}/{job}.{pbs.host}")
        first += share.cores
    received_s = int(now_s) if node.alive else node.changed_s
    return {
        "name": node.name,
        "state": ",".join(states) or "free",
        "power_state": "Running",
        "np": str(node.cpus),
        "properties": ",".join(node.features) or None,
        "ntype": "cluster",
        "jobs": ",".join(slots) or None,
        "status": f"opsys=linux,uname=Linux {node.name} 6.1.0 #1 SMP x86_64,nsessions=0,idletime=60,"
        f"totmem={node.memory_mib * 1024}kb,physmem={node.memory_mib * 1024}kb,ncpus={node.cpus},loadave=0.00,gres=,"
        f"netload=0,state=free,varattr= ,version=6.1.3,rectime={received_s},jobs=",
        "note": node.note or None,
        "mom_service_port": "15002",
        "mom_manager_port": "15003",
    }


def server_text(pbs: Pbs, now_s: float) -> bytes:
    """Return what `qstat -B -f` prints."""
    attributes = {"server_state": "Active", **pbs.attributes, **_counts(pbs, pbs.cluster.jobs.values(), now_s)}
    attributes |= {"default_queue": pbs.queue, "pbs_version": VERSIONS[pbs.kind]}
    return _section(f"Server: {pbs.host}", attributes)


def queues_text(pbs: Pbs, now_s: float) -> bytes:
    """Return what `qstat -Q -f` prints."""
    text = b""
    for name in pbs.cluster.queues:
        jobs = [job for job in pbs.cluster.jobs.values() if job.queue == name]
        attributes = {"queue_type": "Execution", **_counts(pbs, jobs, now_s), "enabled": "True", "started": "True"}
        text += _section(f"Queue: {name}", attributes)
    return text


def jobs_text(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat` prints."""
    lines = ["Job id            Name             User              Time Use S Queue"]
    lines += ["----------------  ---------------- ----------------  -------- - -----"]
    lines += [
        f"{pbs.job_id(job):17} {job.name[:16]:16} {job.user:17} {0:>8} {letter_of(pbs, job, now_s)} {job.queue:5}"
        for job in jobs
    ]
    return ("\n".join(lines) + "\n").encode() if len(lines) > 2 else b""


def _counts(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> dict[str, str]:
    letters = Counter(letter_of(pbs, job, now_s) for job in jobs)
    letters["R"] += letters.pop("S", 0)
    counts = " ".join(f"{name}:{letters[letter]}" for letter, name in NAMES.items())
    return {"total_jobs": str(letters.total()), "state_count": f"Transit:0 {counts} "}


def _section(head: str, attributes: Mapping[str, str]) -> bytes:
    return "\n".join([head, *(f"    {name} = {value}" for name, value in attributes.items()), "", ""]).encode()
