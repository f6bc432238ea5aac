"""The scheduler is killed, stopped or told to reconfigure at each step of nodes that fall asleep and wake.

`python -m benchmarks.scheduler_stops slurm` runs a real slurmctld, `openpbs` and `torque` the stand-in. As soon as the
agent's ledger shows the step, the fault happens, and the server is back within seconds; then a job needs all nodes. It
prints how long such a job waited from when it was there and the server, too. It needs slurmctld, slurmd, munge and
openipmi, and root.
"""

import argparse
import random
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from benchmarks.local_slurm.agent import agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.peers import peer

STEPS = {"close": False, "soft_off": False, "power_down": False, "on": True, "power_up": True, "open": True}
"""The orders as the ledger calls them, and whether a job has to come for the step to be taken."""
FAULTS = ("kill", "stop", "reconfigure")
PLAN = PoweredPlan(nodes=4, slurmd_timeout_s=10, notice_s=2.0)
LONGEST_ABSENCE_S, TOLD_S, COMES_S = 5.0, 60.0, 120.0
STARTS_S = PLAN.boot_s + PLAN.slurmd_timeout_s + 5.0
"""A boot, the time in which slurmctld notices that a node is off, and the interval between two of its cycles."""
GIVE_UP_S = 600.0


class Trials:
    """Lets the scheduler fail at a step, and looks at what becomes of a job that needs all nodes."""

    def __init__(self, stage: Any, chance: random.Random) -> None:
        self.stage, self.chance = stage, chance
        self.waits_s: dict[str, list[float]] = defaultdict(list)
        self.stranded: list[str] = []
        self.untold: list[str] = []
        self.absent: set[str] = set()

    def run(self, step: str, fault: str) -> str:
        """Try once, and say how it went. A step that does not come in time counts nowhere, and is not tried again."""
        if step in self.absent:
            return f"{step} does not come"
        stage, jobs = self.stage, []
        stage.wait(lambda: all(map(stage.admin.sleeps, stage.nodes)), what="all nodes to sleep", seconds=GIVE_UP_S)
        if not STEPS[step]:
            self._wait_for(stage.jobs.submit(nodes=len(stage.nodes), seconds=1))
        before = count_orders(stage.folder, step)
        if STEPS[step]:
            jobs = stage.jobs.submit(nodes=len(stage.nodes), seconds=1)
        until_s = time.monotonic() + COMES_S
        while count_orders(stage.folder, step) == before:
            if time.monotonic() > until_s:
                self.absent.add(step)
                self._wait_for(jobs)
                return f"no {step} came"
            time.sleep(0.01)
        self._fail(fault)
        if not STEPS[step]:
            jobs = stage.jobs.submit(nodes=len(stage.nodes), seconds=1)
        wait_s = self._wait_for(jobs)
        self.waits_s[f"{fault} at {step}"].append(wait_s)
        return f"{fault} at {step}: the job had run after {wait_s:.1f} s"

    def _fail(self, fault: str) -> None:
        time.sleep(self.chance.uniform(0.0, 0.5))
        if fault == "reconfigure":
            self.stage.run("scontrol", "reconfigure")
            return
        (self.stage.kill9_server if fault == "kill" else self.stage.stop_server)()
        time.sleep(self.chance.uniform(0.0, LONGEST_ABSENCE_S))
        self.stage.start_server()

    def _wait_for(self, jobs: list[str]) -> float:
        """Return how long it took until the jobs had ended [s]."""
        begun_s, is_told = time.monotonic(), False
        while not all(self.stage.jobs.states().get(job) == "COMPLETED" for job in jobs):
            waited_s = time.monotonic() - begun_s
            if waited_s > TOLD_S and not is_told:
                is_told = True
                status = run_offpeak(self.stage, "status").stdout
                if not any(node in status for node in self.stage.nodes):
                    self.untold.append(f"jobs {jobs} wait, and status names no node:\n{status}")
            if waited_s > GIVE_UP_S:
                self.stranded.append(f"jobs {jobs} wait:\n{self.stage.describe_state()}")
                self.stage.jobs.cancel(jobs)
                break
            time.sleep(0.5)
        return time.monotonic() - begun_s


def count_orders(folder: Path, order: str) -> int:
    """Return how many of them the agent has given, or is about to give."""
    with closing(sqlite3.connect(f"file:{folder}/ledger.sqlite?mode=ro", uri=True, timeout=60)) as ledger:
        return int(ledger.execute('select count(*) from intents where "order" = ?', (order,)).fetchone()[0])


def running_stage(kind: str) -> AbstractContextManager[Any]:
    """Run such a cluster until the block ends."""
    return powered_cluster(PLAN) if kind == "slurm" else peer("powered_pbs").powered_pbs(kind, PLAN)


def figures(kind: str, count: int, seed: int) -> Iterator[Measured]:
    """Yield all figures."""
    with running_stage(kind) as stage:
        if kind == "slurm":
            stage.admin = peer("slurm_admin").SlurmAdmin(stage.slurm)
        trials = Trials(stage, random.Random(seed))
        tried = [(step, fault) for step in STEPS for fault in (FAULTS if kind == "slurm" else FAULTS[:2])] * count
        trials.chance.shuffle(tried)
        with agent(stage, write_site(stage)) as running:
            stage.wait(lambda: "started in mode" in running.log.read_text(), what="the agent")
            for number, (step, fault) in enumerate(tried, 1):
                print(f"{number} of {len(tried)}: {trials.run(step, fault)}", file=sys.stderr, flush=True)
        lost, violations = stage.jobs.lost(), stage.log.violations
    for entry in (*trials.stranded, *trials.untold, *violations, *(f"lost: job {job}" for job in lost)):
        print(entry, file=sys.stderr)
    data = f"{kind}, {len(stage.nodes)} nodes, seed {seed}"
    for what, waits_s in sorted(trials.waits_s.items()):
        text = f"median {statistics.median(waits_s):.1f} s of {len(waits_s)}"
        yield Measured(f"{what}: until the job has run", max(waits_s), "s", STARTS_S, False, text)
    yield Measured("jobs that never ran", len(trials.stranded), "", 0.0, False, data)
    yield Measured("jobs that waited a minute, and status named no node", len(trials.untold), "", 0.0, False, data)
    yield Measured("violated invariants, and lost jobs", len(violations) + len(lost), "", 0.0, False, data)


def main() -> int:
    """Return 0 if every bar was reached."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.scheduler_stops", description=__doc__)
    arguments.add_argument("kind", choices=("slurm", "openpbs", "torque"))
    arguments.add_argument("--count", type=int, default=20, help="how often each fault happens at each step")
    arguments.add_argument("--seed", type=int, default=1, help="of the moments")
    given = arguments.parse_args()
    measured = list(figures(given.kind, given.count, given.seed))
    print_table(measured)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
