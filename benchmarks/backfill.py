"""Whether an agent disturbs Slurm's backfill while no price changes: mixed jobs on a real slurmctld, with and without.

`python -m benchmarks.backfill --seed 1 2` runs the same jobs twice for each seed, on one cluster, and prints makespans
and mean waits; `--compare FILES` reads such lines again and prints how the two differ. It needs slurmctld, slurmd,
munge and openipmi, and root.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan

NODES, JOBS = 8, 200
WIDTHS, WIDTH_WEIGHTS = (1, 2, 4, 8), (8, 4, 2, 1)
LONGEST_S, LONGEST_LIMIT_MIN, PAUSE_S = 5.0, 10, 0.3
CHANGES = {
    "agent": {"capacity": "always-on", "queue": "greedy"},
    "prices": {"tariff": "on=90EUR/MWh,off=90EUR/MWh,hours=09:00-23:00"},
}
END_S = 1800.0


@dataclass(frozen=True)
class Run:
    """The same jobs, with an agent or without: time from the first submission to the last end, and mean wait [s]."""

    seed: int
    with_agent: bool
    makespan_s: float
    mean_wait_s: float


def run_jobs(cluster: PoweredCluster, seed: int, *, with_agent: bool) -> Run:
    """Submit mixed jobs in bursts, and return how they ran."""
    chance, submitted_s = random.Random(seed), dict[str, float]()
    with ExitStack() as running:
        if with_agent:
            its = running.enter_context(agent(cluster, write_site(cluster, CHANGES)))
            cluster.wait(lambda: "started in mode" in its.log.read_text(), what="the agent")
        for _ in range(JOBS):
            (nodes,) = chance.choices(WIDTHS, WIDTH_WEIGHTS)
            seconds = chance.uniform(0.5, LONGEST_S)
            at_s = time.time()
            jobs = cluster.jobs.submit(nodes=nodes, seconds=seconds, limit_min=chance.randint(1, LONGEST_LIMIT_MIN))
            submitted_s |= dict.fromkeys(jobs, at_s)
            time.sleep(chance.choice((0.0, 0.0, PAUSE_S)))

        def ended_s() -> list[float]:
            return [each.at_s for each in cluster.jobs.trace() if each.what == "end" and each.job in submitted_s]

        cluster.wait(lambda: len(ended_s()) == JOBS, what="all jobs to end", seconds=END_S)
    waits_s = [
        each.at_s - submitted_s[each.job]
        for each in cluster.jobs.trace()
        if each.what == "start" and each.job in submitted_s
    ]
    return Run(seed, with_agent, max(ended_s()) - min(submitted_s.values()), statistics.mean(waits_s))


def run_pairs(seeds: Sequence[int]) -> Iterator[Run]:
    """Yield two runs for each seed; which of them comes first alternates, as the load of the machine may change."""
    for seed in seeds:
        with powered_cluster(PoweredPlan(nodes=NODES)) as cluster:
            for with_agent in (False, True) if seed % 2 else (True, False):
                yield run_jobs(cluster, seed, with_agent=with_agent)


def compare(runs: Sequence[Run]) -> str:
    """Return means of both, and how often chance alone would make them differ as much: over all changes of signs."""
    lines = []
    for name in ("makespan_s", "mean_wait_s"):
        with_s, without_s = (
            {run.seed: getattr(run, name) for run in runs if run.with_agent is has_agent} for has_agent in (True, False)
        )
        differences_s = [with_s[seed] - without_s[seed] for seed in with_s if seed in without_s]
        mean_s = statistics.mean(differences_s)
        by_chance = [
            abs(statistics.mean(sign * each for sign, each in zip(signs, differences_s, strict=True))) >= abs(mean_s)
            for signs in product((1, -1), repeat=len(differences_s))
        ]
        lines.append(
            f"{name}: with {statistics.mean(with_s.values()):.1f}, without {statistics.mean(without_s.values()):.1f},"
            f" difference {mean_s:+.1f} ({min(differences_s):+.1f} to {max(differences_s):+.1f}) in"
            f" {len(differences_s)} pairs, p = {statistics.mean(by_chance):.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run, or compare."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.backfill", description=__doc__)
    arguments.add_argument("--seed", type=int, nargs="+", default=[1], help="of the jobs, one for each pair of runs")
    arguments.add_argument("--compare", type=Path, nargs="+", metavar="FILE", help="with lines of earlier runs")
    given = arguments.parse_args()
    if given.compare:
        lines = [line for file in given.compare for line in file.read_text().splitlines()]
        sys.stdout.write(f"{compare([Run(**json.loads(line)) for line in lines])}\n")
        return
    for run in run_pairs(given.seed):
        sys.stdout.write(f"{json.dumps(asdict(run))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
