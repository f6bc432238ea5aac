"""Slurm's answers about 10,000 jobs and 1,000 nodes, parsed."""

import random
import time
from collections.abc import Callable, Iterator

from benchmarks.bars import Measured
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.slurm.jobs import SQUEUE_COLUMNS, jobs_of_text, separator
from offpeak.plugin.slurm.nodes import nodes_of_text

JOBS, NODES = 10_000, 1000
TRIES = 5
END = "\x1e0123456789abcdef"
NODE = (
    "NodeName=n{i} Arch=x86_64 CoresPerSocket=32 CPUAlloc={used} CPUEfctv=64 CPUTot=64 CPULoad=4.92"
    " AvailableFeatures=cpu,fast ActiveFeatures=cpu,fast Gres=(null) NodeAddr=n{i} NodeHostName=n{i} Version=25.11.7"
    " OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC RealMemory=256000 AllocMem=0 FreeMem=22476 Sockets=2 Boards=1 State={state}"
    " ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch,long BootTime=1795216864"
    " SlurmdStartTime=1795285602 LastBusyTime=1795285602 CfgTRES=cpu=64,mem=256000M,billing=64 AllocTRES=cpu=64"
    " CurrentWatts=0 AveWatts=0\n"
)


def slurm_benchmarks() -> Iterator[Measured]:
    """Measure the processor time of the parsers on answers like those of a large site."""
    jobs, nodes = jobs_text(JOBS), nodes_text(NODES)
    jobs_s = _least(lambda: len(jobs_of_text(jobs, END)), JOBS)
    yield Measured("squeue's text parsed", jobs_s, "s", 0.12, False, f"{JOBS:,} jobs")
    known: dict[bytes, Job | None] = {}
    again_s = _least(lambda: len(jobs_of_text(jobs, END, known)), JOBS, before=lambda: jobs_of_text(jobs, END, known))
    yield Measured("the same text once more", again_s, "s", float("inf"), False, f"{JOBS:,} jobs")
    nodes_s = _least(lambda: len(nodes_of_text(nodes)), NODES)
    yield Measured("scontrol's text parsed", nodes_s, "s", 0.12, False, f"{NODES:,} nodes")


def jobs_text(number: int) -> bytes:
    """Return what squeue prints of so many jobs."""
    chance = random.Random(1)
    rows = (f"{separator(END).join(_job(i, chance))}{END}\n" for i in range(number))
    return f"JOBID{END}\n{''.join(rows)}".encode()


def nodes_text(number: int) -> bytes:
    """Return what scontrol prints of so many nodes."""
    chance = random.Random(1)
    states = ((64, "ALLOCATED"), (8, "MIXED+PLANNED"), (0, "IDLE"), (0, "IDLE+DRAIN+POWERED_DOWN"))
    drawn = (chance.choice(states) for _ in range(number))
    return "".join(NODE.format(i=i, used=used, state=state) for i, (used, state) in enumerate(drawn)).encode()


def _job(number: int, chance: random.Random) -> Iterator[str]:
    submit_s = 1_795_000_000 + number * 7
    columns = {
        "JobID": str(number),
        "JobArrayID": str(number),
        "HetJobID": "N/A",
        "State": chance.choice(("PENDING", "PENDING", "RUNNING")),
        "Reason": chance.choice(("Priority", "Resources", "Dependency")),
        "UserName": f"user{number % 300}",
        "Account": f"account{number % 40}",
        "Partition": chance.choice(("batch", "batch,long")),
        "PriorityLong": str(chance.randrange(2**32)),
        "Nice": "0",
        "NumNodes": str(chance.randrange(1, 64)),
        "NumCPUs": str(chance.randrange(64, 4096)),
        "OverSubscribe": "NO",
        "TimeLimit": f"{chance.randrange(1, 48)}:00:00",
        "SubmitTime": str(submit_s),
        "EligibleTime": str(submit_s),
        "StartTime": str(submit_s + chance.randrange(86_400)),
        "EndTime": str(submit_s + chance.randrange(86_400, 172_800)),
        "NodeList": f"n[{number % 900}-999]",
        "MinCpus": "64",
        "MinMemory": "4000M",
        "QOS": "normal",
        "Comment": "flexible" if number % 3 else "(null)",
        "Name": f"run {number}",
    }
    return (columns.get(column, "(null)") for column in SQUEUE_COLUMNS)


def _least(parse: Callable[[], int], wanted: int, *, before: Callable[[], object] = lambda: None) -> float:
    """Return the processor time of the quickest of several tries; RuntimeError if records are missing."""
    times = []
    for _ in range(TRIES):
        before()
        began = time.process_time()
        if parse() != wanted:
            raise RuntimeError("records are missing")
        times.append(time.process_time() - began)
    return min(times)
