"""`python -m benchmarks.power_aware_peer CHECKOUT` compares the rules that plan wakes with SPARS's power-aware EASY.

SPARS (https://github.com/RakaSP/SPARS-Pub, arXiv 2512.13268) publishes the results of its PSAS for a part of NASA-iPSC
with time-outs of 5 to 60 minutes. CHECKOUT is a clone of it, which the reader fetches. Each published point is compared
with the rule of ours that uses least energy at a mean wait that is no longer. The energies of both are recomputed from
what each published, its time in each state, and our node log.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.jobs import Jobs, make_jobs
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import OFF, asleep, going_down
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.report_tables import StudyTable
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak_studies.report import markdown_table

WORKLOAD, RESULTS = "workloads/nasa-20-back.json", "nasa_20_back_timeout_*_easy_psas"
ON_W, OFF_W = 190.0, 9.0
ENTER_S, LEAVE_S = 1800, 2700
"""The watts and seconds of the published schedules: idle, busy and rising nodes draw the same, falling ones sleep."""

NODES = NodeClass(
    "nasa",
    ON_W,
    ((0.0, ON_W), (1.0, ON_W)),
    (DepthPower(OFF, OFF_W, Transition(ENTER_S, OFF_W, 0.0), Transition(LEAVE_S, ON_W, 0.0)),),
)
IDLE = ("0s", "2min", "5min", "8min", "10min", "15min", "20min", "30min", "45min", "1h", "70min", "80min", "90min")
RULES = tuple(f"planned:{idle}" for idle in IDLE)
HEADER = ("time-out", "PSAS: wait [s]", "energy [GJ]", "offpeak", "wait [s]", "energy [GJ]", "less energy [%]")


class Point(NamedTuple):
    """One rule on the workload."""

    rule: str
    wait_s: float
    energy_j: float


def published(checkout: Path) -> list[Point]:
    """Return the published points, by time-out. Raises BadInput if their energy is not that of their states."""
    points = []
    for path in (checkout / "results_save").glob(f"{RESULTS}/metrics.csv"):
        row = {name: float(text) for name, text in next(csv.DictReader(path.read_text().splitlines())).items()}
        on_s = row["total_active_idle"] + row["total_active_compute"] + row["total_switching_on"]
        energy_j = ON_W * on_s + OFF_W * (row["total_switching_off"] + row["total_sleeping"])
        if abs(energy_j / row["total_energy_consumption"] - 1) > 1e-9:
            raise BadInput(f"{path}: the energy is not that of the time in each state", hint="check the watts")
        points.append(Point(path.parent.name.split("_")[4], row["mean_waiting_time"], energy_j))
    return sorted(points, key=lambda point: int(point.rule))


def workload(checkout: Path) -> tuple[Jobs, int]:
    """Return the jobs and the number of nodes. Raises BadInput without the file."""
    path = checkout / WORKLOAD
    if not path.exists():
        raise BadInput(f"{path} is missing", hint="git clone https://github.com/RakaSP/SPARS-Pub CHECKOUT")
    read = json.loads(path.read_text())
    columns = (np.array([job[name] for job in read["jobs"]]) for name in ("subtime", "res", "runtime", "reqtime"))
    return make_jobs(*columns), int(read["nb_res"])


def energy_of(schedule: Schedule, nodes: int, until_s: int) -> float:
    """Return the energy of the nodes from the first submission to `until_s` by the entries of their log [J]."""
    log = schedule.node_log
    low_s = 0
    for node in range(nodes):
        own = log.node == node
        at_s, is_low = np.append(log.at_s[own], until_s), np.isin(log.state[own], (going_down(OFF), asleep(OFF)))
        low_s += int(np.diff(np.minimum(at_s, until_s))[is_low].sum())
    return ON_W * nodes * until_s - (ON_W - OFF_W) * low_s


def replayed(rule: str, jobs: Jobs, nodes: int) -> Point:
    """Return our rule on the workload."""
    fleet = Fleet(nodes, 1, NODES)
    capacity = make_capacity_policy(rule, fleet, CapacitySettings())
    easy = parse_policy("easy", SchedulingSettings())
    machine = PoweredMachine(nodes, 1, NODES)
    schedule = replay_powered(jobs, np.full(len(jobs), ON_W), machine, easy, capacity)
    until_s = int(schedule.end_s.max())
    return Point(rule, float((schedule.start_s - jobs.submit_s).mean()), energy_of(schedule, nodes, until_s))


def compared(theirs: list[Point], ours: list[Point]) -> list[tuple[str, ...]]:
    """Return a row for each published point beside our least energy at no longer a wait."""
    rows: list[tuple[str, ...]] = []
    for point in theirs:
        best = min((each for each in ours if each.wait_s <= point.wait_s), key=lambda each: each.energy_j, default=None)
        row = (f"{int(point.rule) // 60} min", f"{point.wait_s:,.0f}", f"{point.energy_j / 1e9:.3f}")
        if best is None:
            rows.append((*row, "none that waits as little", "", "", ""))
            continue
        less_pct = 100 * (1 - best.energy_j / point.energy_j)
        rows.append((*row, best.rule, f"{best.wait_s:,.0f}", f"{best.energy_j / 1e9:.3f}", f"{less_pct:.1f}"))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout
    jobs, nodes = workload(checkout)
    rows = compared(published(checkout), [replayed(rule, jobs, nodes) for rule in RULES])
    print(markdown_table(StudyTable("psas", "PSAS", "", HEADER, tuple(rows))))


if __name__ == "__main__":
    main()
