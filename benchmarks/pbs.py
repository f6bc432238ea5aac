"""Torque's and OpenPBS's answers about 10,000 jobs, parsed."""

import json
import random
import time
from collections.abc import Callable, Iterator

from benchmarks.bars import Measured
from offpeak.plugin.pbs.openpbs import jobs_of_json
from offpeak.plugin.pbs.torque import jobs_of_xml

JOBS = 10_000
TRIES = 5
# As long as those of real ones are: most of it is the user's environment.
ENVIRONMENT = (
    "PBS_O_HOME=/home/user,PBS_O_PATH=/opt/torque/bin:/opt/torque/sbin:/usr/bin:/bin:/usr/sbin,PBS_O_SHELL=/bin/bash"
)
JOB_XML = (
    "<Job><Job_Id>{i}.head</Job_Id><Job_Name>run {i}</Job_Name><Job_Owner>user{u}@head</Job_Owner>"
    "<job_state>{state}</job_state><queue>batch</queue><server>head</server><Account_Name>proj{u}</Account_Name>"
    "<Checkpoint>u</Checkpoint><ctime>{at}</ctime><Error_Path>head:/dev/null</Error_Path>{hosts}<Hold_Types>n</Hold_Types>"
    "<Join_Path>n</Join_Path><Keep_Files>n</Keep_Files><Mail_Points>a</Mail_Points><mtime>{at}</mtime>"
    "<Output_Path>head:/dev/null</Output_Path><Priority>0</Priority><qtime>{at}</qtime><Rerunable>True</Rerunable>"
    "<Resource_List><nodes>{n}:ppn=32</nodes><walltime>{h}:00:00</walltime><nodect>{n}</nodect></Resource_List>"
    "<substate>10</substate><Variable_List>{environment}</Variable_List><euser>user{u}</euser><egroup>users</egroup>"
    "<queue_rank>{i}</queue_rank><queue_type>E</queue_type><comment>Not Running: not enough nodes</comment>"
    "<etime>{at}</etime><submit_args>-N run -l nodes={n}:ppn=32</submit_args><fault_tolerant>False</fault_tolerant>"
    "<job_radix>0</job_radix><submit_host>head</submit_host><request_version>1</request_version></Job>"
)


def pbs_benchmarks() -> Iterator[Measured]:
    """Measure the processor time of the parsers on answers like those of a large site."""
    text = jobs_xml(JOBS)
    yield Measured("qstat -x parsed", _least(lambda: len(jobs_of_xml(text))), "s", 1.0, False, f"{JOBS:,} jobs")
    text = jobs_json(JOBS)
    json_s = _least(lambda: len(jobs_of_json(text, lambda _: 0.0)))
    yield Measured("qstat -F json parsed", json_s, "s", 0.5, False, f"{JOBS:,} jobs")


def jobs_xml(number: int) -> bytes:
    """Return what Torque's `qstat -x -t` prints of so many jobs."""
    return f'<?xml version="1.0"?>\n<Data>{"".join(JOB_XML.format_map(_job(i)) for i in range(number))}</Data>'.encode()


def jobs_json(number: int) -> bytes:
    """Return what OpenPBS's `qstat -x -t -f -F json` prints of so many jobs."""
    return json.dumps({"pbs_version": "23.06.06", "Jobs": {f"{i}.head": _record(i) for i in range(number)}}).encode()


def _job(number: int) -> dict[str, object]:
    chance = random.Random(number)
    runs = chance.random() < 0.3
    hosts = f"<exec_host>n{number % 900}/0-31</exec_host><start_time>1795000000</start_time>" if runs else ""
    values = {"i": number, "u": number % 300, "state": "R" if runs else "Q", "at": 1_795_000_000 + number}
    return {
        **values,
        "hosts": hosts,
        "n": chance.randrange(1, 64),
        "h": chance.randrange(1, 48),
        "environment": ENVIRONMENT,
    }


def _record(number: int) -> dict[str, object]:
    job = _job(number)
    at = time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(1_795_000_000 + number * 7))
    nodes = job["n"]
    wants = {"ncpus": 32, "nodect": nodes, "place": "scatter:excl", "select": f"{nodes}:ncpus=32:mem=64gb"}
    record: dict[str, object] = {"Job_Name": f"run {number}", "Job_Owner": f"user{job['u']}@head", "queue": "workq"}
    record |= {"job_state": job["state"], "ctime": at, "qtime": at, "mtime": at, "etime": at, "Priority": 0}
    record |= {"Resource_List": {**wants, "walltime": f"{job['h']}:00:00"}, "schedselect": wants["select"]}
    record |= {"Variable_List": dict(part.split("=") for part in ENVIRONMENT.split(",")), "euser": f"user{job['u']}"}
    if job["state"] == "R":
        record |= {"stime": at, "exec_vnode": "+".join(f"(n{number % 900 + k}:ncpus=32)" for k in range(8))}
    return record | {"queue_rank": number, "substate": 10, "comment": "Not Running: not enough nodes", "project": "p"}


def _least(parse: Callable[[], int]) -> float:
    """Return the processor time of the quickest of several tries; RuntimeError if records are missing."""
    times = []
    for _ in range(TRIES):
        began = time.process_time()
        if parse() != JOBS:
            raise RuntimeError("records are missing")
        times.append(time.process_time() - began)
    return min(times)
