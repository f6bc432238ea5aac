"""What Torque prints with `-x`: one line of XML, the fields in the order of real servers."""

from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape

from plugin.scheduler.job import JobState
from sim_backend.pbs_standin.letters import holds_of, letter_of
from sim_backend.pbs_standin.pbs import Pbs
from sim_backend.pbs_standin.times import clock, comment_time
from sim_backend.scheduler.sim_job import SimJob
from sim_backend.scheduler.sim_node import SimNode

HEAD = '<?xml version="1.0"?>\n'
Fields = Mapping[str, "str | Fields | None"]
"""Elements by name; None for one that is left out."""


def qstat_xml(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat -x` prints of these jobs; nothing at all where there is none."""
    text = "".join(f"<Job>{_xml(_job(pbs, job, now_s))}</Job>" for job in jobs)
    return f"{HEAD}<Data>{text}</Data>\n".encode() if text else b""


def pbsnodes_xml(pbs: Pbs, nodes: Iterable[SimNode], now_s: float) -> bytes:
    """Return what `pbsnodes -x` prints of these nodes."""
    return f"<Data>{''.join(f'<Node>{_xml(_node(pbs, node, now_s))}</Node>' for node in nodes)}</Data>\n".encode()


def _xml(fields: Fields) -> str:
    return "".join(
        f"<{name}>{_xml(value) if isinstance(value, Mapping) else escape(value, {chr(34): '&quot;'})}</{name}>"
        for name, value in fields.items()
        if value is not None
    )


def _job(pbs: Pbs, job: SimJob, now_s: float) -> Fields:
    number, ran = pbs.job_id(job), job.start_s is not None
    took_s = (job.end_s or now_s) - (job.start_s or now_s)
    used: Fields | None = {"cput": "00:00:00", "walltime": clock(took_s)} if ran else None
    name = job.name if job.index is None else f"{job.name}-{job.index}"
    counted = {} if job.tasks else {"nodect": str(job.nodes), "neednodes": job.wants.get("nodes")}
    listed = {**job.wants, **counted}
    return {
        "Job_Id": number,
        "Job_Name": name,
        "Job_Owner": f"{job.user}@{pbs.host}",
        "resources_used": used,
        "job_state": letter_of(pbs, job, now_s),
        "queue": job.queue,
        "server": pbs.host,
        "Account_Name": job.told.get("account") or None,
        "Checkpoint": "u",
        "ctime": str(job.submit_s),
        "depend": job.told.get("depend") or None,
        "exec_host": "+".join(f"{node}/0-{cpus - 1}" for node, cpus in job.placed.items()) or None,
        "Execution_Time": str(job.begin_s) if job.begin_s else None,
        "Hold_Types": holds_of(pbs, job),
        "mtime": str(int(now_s)),
        "Priority": str(job.priority),
        "qtime": str(job.submit_s),
        "Rerunable": "True",
        "Resource_List": listed,
        "substate": "42" if job.state is JobState.RUNNING else "10",
        "Variable_List": _variables(job),
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


def _variables(job: SimJob) -> str:
    own = [each.replace("\\", "\\\\").replace(",", "\\,") for each in job.told["variables"].split("\x1f") if each]
    return ",".join([f"PBS_O_QUEUE={job.queue}", f"PBS_O_LOGNAME={job.user}", *own])


def _node(pbs: Pbs, node: SimNode, now_s: float) -> Fields:
    words = [] if node.alive or node.shown_up else ["down"]
    words += sorted(node.shut)
    if node.cpus_used >= node.cpus:
        words.append("job-exclusive")
    slots, first = [], 0
    for job, cpus in node.used.items():
        slots.append(f"{first}{f'-{first + cpus - 1}' if cpus > 1 else ''}/{job}.{pbs.host}")
        first += cpus
    heard_s = int(now_s) if node.alive else node.changed_s
    return {
        "name": node.name,
        "state": ",".join(words) or "free",
        "power_state": "Running",
        "np": str(node.cpus),
        "properties": ",".join(node.features) or None,
        "ntype": "cluster",
        "jobs": ",".join(slots) or None,
        "status": f"opsys=linux,uname=Linux {node.name} 6.1.0 #1 SMP x86_64,nsessions=0,idletime=60,"
        f"totmem={node.memory_mib * 1024}kb,physmem={node.memory_mib * 1024}kb,ncpus={node.cpus},loadave=0.00,gres=,"
        f"netload=0,state=free,varattr= ,version=6.1.3,rectime={heard_s},jobs=",
        "note": node.note or None,
        "mom_service_port": "15002",
        "mom_manager_port": "15003",
    }
