"""A cycle of the agent on a large site: 10,000 nodes and 50,000 pending jobs, printed by scripts in place of Slurm.

`python -m benchmarks.large_site`: the scripts only copy files, so that the figures are those of the agent.
"""

import asyncio
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.__main__ import print_table
from benchmarks.agent_at_rest import used_by
from benchmarks.bars import Measured
from benchmarks.power_cycle import INVENTORY, AnswersAtOnce
from benchmarks.queue_cycle import EXPENSIVE, queried_by_us
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import PowerState
from offpeak.plugin.slurm.jobs import SQUEUE_COLUMNS
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.lifecycle.sweep import NodePoller
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.service import limit_memory
from offpeak.services.agent.site_context import SiteContext, make_site_context
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PowerSettings, PriceSettings
from offpeak.settings.table import Settings

NODES, RUNNING, PENDING, PARTITIONS, ROUNDS = 10_000, 9_000, 50_000, 25, 4
END = "~"
"""Stands for the random text at the end of each record, which the script puts in its place."""
NODE = (
    "NodeName=n{i:05} CPUAlloc={used} CPUTot=64 AvailableFeatures=avx Gres=(null) State={state} Partitions=p{part}"
    " RealMemory=256000 AllocMem=0 BootTime={boot} LastBusyTime={busy} CfgTRES=cpu=64,mem=250G AllocTRES="
)
CONFIG = """\
ClusterName             = large
PriorityType            = priority/multifactor
PriorityWeightAge       = 1000
SelectType              = select/cons_tres
SlurmUser               = root(0)
SLURM_VERSION           = 24.11.7
SuspendTime             = 31536000 sec
SuspendProgram          = /bin/true
ResumeProgram           = /bin/true
ResumeFailProgram       = /bin/true
ResumeTimeout           = 600 sec
ReturnToService         = 2
SchedulerType           = sched/backfill
"""
SCRIPTS = {
    "squeue": 'for last; do :; done; exec sed "s/~/${last##*Name:}/g" HERE/squeue.txt',
    "sprio": "exec cat HERE/sprio.txt",
    "sdiag": "printf 'statistics by user\\n\\tx (0) count:1 ave_time:1 total_time:1\\n'",
    "sinfo": "echo slurm 24.11.7",
    "scontrol": 'case "$*" in *nodes*) exec cat HERE/nodes.txt;; *partitions*) exec cat HERE/partitions.txt;;'
    ' *config*) exec cat HERE/config.txt;; "") exec cat >/dev/null;; esac',
}


def write_site(folder: Path, now_s: int) -> None:
    """Write what the commands print, and the commands."""
    job_rows = (_job(number, now_s) for number in range(RUNNING + PENDING))
    (folder / "squeue.txt").write_text("".join(f"{row}{END}\n" for row in job_rows))
    (folder / "sprio.txt").write_text(
        "".join(f"{number + 1}|{5 + number % 900}|0|0|0|0|0|0|0|0\n" for number in range(RUNNING, RUNNING + PENDING))
    )
    (folder / "nodes.txt").write_text("".join(f"{_node(number, now_s)}\n" for number in range(NODES)))
    names = (f"PartitionName=p{number} MaxTime=7-00:00:00 OverSubscribe=EXCLUSIVE\n" for number in range(PARTITIONS))
    (folder / "partitions.txt").write_text("".join(names))
    (folder / "config.txt").write_text(CONFIG)
    for name, script in SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script.replace('HERE', str(folder))}\n")
        (folder / name).chmod(0o755)


def _job(number: int, now_s: int) -> str:
    runs, user = number < RUNNING, f"u{number % 700}"
    values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {
        "JobID": str(number + 1),
        "JobArrayID": str(number + 1),
        "State": "RUNNING" if runs else "PENDING",
        "Reason": "None" if runs else "Priority",
        "UserName": user,
        "Account": f"a{number % 40}",
        "Partition": f"p{number % PARTITIONS}",
        "PriorityLong": str(10_000 + number % 5000),
        "Nice": "0",
        "NumNodes": "1" if runs else str(1 + number % 8),
        "NumCPUs": "64" if runs else str(64 * (1 + number % 8)),
        "NumTasks": "1" if runs else str(1 + number % 8),
        "OverSubscribe": "NO",
        "TimeLimit": f"{1 + number % 47}:00:00",
        "SubmitTime": str(now_s - 90_000 + number),
        "EligibleTime": str(now_s - 90_000 + number),
        "StartTime": str(now_s - 3600) if runs else "N/A",
        "EndTime": str(now_s + 3600 * (1 + number % 40)) if runs else "N/A",
        "NodeList": f"n{number:05}" if runs else "",
        "QOS": "normal",
        "MinCpus": "1",
        "MinMemory": f"{1000 * (1 + number % 200)}M",
        "Comment": "offpeak:delay=8h" if number % 10 == 0 else "",
        "Name": f"work_{number % 300}",
    }
    return f"\x1f{END}\x1f".join(values[column] for column in SQUEUE_COLUMNS)


def _node(number: int, now_s: int) -> str:
    runs, asleep = number < RUNNING, number >= NODES - 500
    state = "ALLOCATED" if runs else "IDLE+POWERED_DOWN" if asleep else "IDLE"
    values = {"used": 64 if runs else 0, "part": number % PARTITIONS, "boot": now_s - 90_000, "busy": now_s - 500}
    return NODE.format(i=number, state=state, **values)


def large_site_benchmarks() -> Iterator[Measured]:
    """Measure rounds of queue and nodes in mode shadow, after the first."""
    with TemporaryDirectory(prefix="offpeak-large-") as name:
        folder = Path(name)
        write_site(folder, int(time.time()))
        with queried_by_us({"PATH": f"{folder}:{os.environ['PATH']}"}):
            took_s, cpu_s = asyncio.run(_cycles(_parts(folder)))
    data = f"{NODES:,} nodes, {PENDING:,} pending and {RUNNING:,} running jobs, neither slurmctld nor BMCs"
    yield Measured("a cycle of queue and nodes, wall clock", took_s, "s", 5.0, False, data)
    yield Measured("the same, processor time", cpu_s, "s", float("inf"), False, data)
    yield Measured("the agent's memory then", used_by(os.getpid()).rss_mib, "MiB", 600.0, False, data)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Measured("its peak", peak_mib, "MiB", float("inf"), False, data)


async def _cycles(parts: SiteContext) -> tuple[float, float]:
    ledger = Ledger(parts.settings.ledger)
    ledger.ready()
    agent = SiteAgent(parts, ledger, ProblemLog())
    await agent.prices.round()
    limit_memory()
    taken, used = [], []
    for _ in range(ROUNDS + 1):
        agent.observer.forget()
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        await agent.queue_loop.round()
        queue_s = time.perf_counter() - begin_s
        await agent.power_loop.round()
        taken.append(time.perf_counter() - begin_s)
        used.append(time.process_time() - begin_cpu_s)
        memory_mib = used_by(os.getpid()).rss_mib
        print(f"queue {queue_s:.1f} s, nodes {taken[-1] - queue_s:.1f} s, {used[-1]:.1f} s CPU, {memory_mib:.0f} MiB")
    await agent.close()
    return median(taken[1:]), median(used[1:])


def _parts(folder: Path) -> SiteContext:
    (folder / "bmc.password").touch(mode=0o600)
    (folder / "bmc.password").write_text("secret\n")
    inventory, nodes = folder / "inventory.toml", f"n[00000-{NODES - 1:05}]"
    bmcs = ",".join(f"127.{number // 250 + 1}.0.{number % 250 + 1}" for number in range(NODES))
    inventory.write_text(INVENTORY.format(nodes=nodes, bmcs=bmcs))
    (folder / "agent").mkdir()
    settings = Settings(
        prices=PriceSettings(tariff=EXPENSIVE),
        power=PowerSettings(classes=("work_1*=400W", "work_2*=150W")),
        agent=AgentSettings(capacity="ols:1h", nodes=nodes, state_folder=folder / "agent"),
        ledger=LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"),
        hardware=HardwareSettings(inventory=inventory),
    )
    parts = make_site_context(settings)
    drivers: dict[str, PowerDriver] = {
        name: AnswersAtOnce(PowerState.OFF if int(name[1:]) >= NODES - 500 else PowerState.ON)
        for name in parts.machines
    }
    return replace(parts, poller=NodePoller(parts.machines, drivers))


if __name__ == "__main__":
    print_table(large_site_benchmarks())
