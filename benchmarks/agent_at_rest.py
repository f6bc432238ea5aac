"""What an agent takes of a head node while nothing happens: 16 nodes of a real Slurm, their BMCs and their PDUs."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import Measured
from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import NEEDED, powered_cluster
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

NODES = 16
SETTLES_S, MEASURED_S = 60.0, 300.0
CHANGES = {
    "agent": {"cycle": "30s", "capacity": "ols:1h", "fresh": "2min"},
    "prices": {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"},
}


@dataclass(frozen=True)
class Used:
    """The processor time of a process and its children by the kernel's count, and its memory."""

    cpu_s: float
    rss_mib: float


def agent_at_rest_benchmarks() -> Iterator[Measured]:
    """Measure for five minutes; nothing where Slurm or ipmi_sim is missing."""
    if all(shutil.which(program) for program in NEEDED):
        share, rss_mib = _measured(settles_s=SETTLES_S, measured_s=MEASURED_S)
        data = f"{NODES} nodes, cycles of 30 s, meters read each 10 s, {MEASURED_S:g} s"
        yield Measured("an agent at rest, with all that it runs", 100 * share, "% of a core", 1.0, False, data)
        yield Measured("its memory", rss_mib, "MiB", 180.0, False, data)


def _measured(*, settles_s: float, measured_s: float) -> tuple[float, float]:
    """Return the share of a core that the agent takes, and its memory [MiB] in the end."""
    plan = PoweredPlan(nodes=NODES)
    with powered_cluster(plan) as slurm, metered_racks(slurm) as racks:
        settings = write_site(slurm, CHANGES, racks=racks)
        # As after every start but the first: making the ledger's tables takes 13 MiB.
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{slurm.folder / 'ledger.sqlite'}"))
        ledger.ready()
        ledger.close()
        with agent(slurm, settings) as running:
            assert running.process is not None
            time.sleep(settles_s)
            began_s, before = time.monotonic(), used_by(running.process.pid)
            time.sleep(measured_s)
            after = used_by(running.process.pid)
            return (after.cpu_s - before.cpu_s) / (time.monotonic() - began_s), after.rss_mib


def used_by(pid: int) -> Used:
    """Return what a process has used, with those of its children that have ended."""
    # Behind the name, which may hold blanks: utime, stime, cutime and cstime are fields 14 to 17 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(field) for field in fields[11:15])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Used(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
