"""What happens in the demo: which jobs come when, and what electricity costs. The same each time."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from sim_backend.traces.swf.write import write_swf

BEGIN_S = int(datetime(2026, 11, 10, 5, tzinfo=UTC).timestamp())
"""A Tuesday, 06:00 in Berlin."""
ZONE = "Europe/Berlin"
HOUR_S, DAY_S = 3600, 86_400
CPUS = 16
LOAD = 0.4
SHORTEST_S, LONGEST_S = 600, 3 * HOUR_S
SIZES = (1, 1, 1, 2, 2, 4, 6)
USERS = ("ann", "bob", "chidi", "dora")
PRICES = (46, 44, 43, 45, 58, 88, 121, 134, 112, 84, 62, 48, 39, 37, 52, 84, 128, 152, 141, 109, 86, 70, 58, 50)
"""EUR/MWh by hour of UTC: two dear times of the day, and a cheap noon."""


@dataclass(frozen=True)
class Kind:
    """Jobs of one name: how much of a node they use, 0..1."""

    name: str
    utilisation: float


KINDS = (Kind("render", 1.0), Kind("solve", 0.6), Kind("archive", 0.2))


@dataclass(frozen=True)
class Coming:
    """A job: when it comes [s after the begin], on how many nodes, for how long, and the limit that its user gave."""

    number: int
    at_s: int
    nodes: int
    run_s: int
    limit_s: int
    user: str
    kind: Kind


def jobs_to_come(nodes: int, length_s: int, *, seed: int = 3) -> tuple[Coming, ...]:
    """Return the jobs of so long a time in the order in which they come: many in the morning, fewer later."""
    chance, work_s = random.Random(seed), 0.0
    drawn: list[tuple[int, int, int]] = []
    while work_s < LOAD * nodes * length_s:
        size = min(nodes // 2, chance.choice(SIZES))
        run_s = round(min(LONGEST_S, max(SHORTEST_S, chance.lognormvariate(math.log(HOUR_S), 0.8))))
        drawn.append((round(length_s * chance.betavariate(1.0, 1.6)), size, run_s))
        work_s += size * run_s
    return tuple(
        Coming(number, at_s, size, run_s, 2 * run_s, chance.choice(USERS), chance.choice(KINDS))
        for number, (at_s, size, run_s) in enumerate(sorted(drawn), 1)
    )


def write_log(jobs: Sequence[Coming], node_w: Mapping[str, float], file: Path, nodes: int) -> None:
    """Write the jobs in the Standard Workload Format; `node_w` is what a node draws by the name of the kind."""
    write_swf(_columns(jobs, node_w), file, processors=nodes, unix_start_s=BEGIN_S, zone=ZONE)


def _columns(jobs: Sequence[Coming], node_w: Mapping[str, float]) -> Jobs:
    def column(value: Callable[[Coming], int]) -> Int64:
        return np.array([value(job) for job in jobs], np.int64)

    kinds = [kind.name for kind in KINDS]
    return Jobs(
        job_id=column(lambda job: job.number),
        submit_s=column(lambda job: job.at_s),
        runtime_s=column(lambda job: job.run_s),
        estimate_s=column(lambda job: job.limit_s),
        size=column(lambda job: job.nodes),
        user=column(lambda job: USERS.index(job.user)),
        group=column(lambda _: 0),
        queue=column(lambda _: 0),
        application=column(lambda job: kinds.index(job.kind.name)),
        logged_start_s=column(lambda _: -1),
        node_power_w=np.array([node_w[job.kind.name] for job in jobs]),
    )


def price_at(unix_s: float) -> float:
    """Return what a megawatt-hour costs [EUR]."""
    return float(PRICES[int(unix_s // HOUR_S) % 24])


def write_prices(file: Path) -> None:
    """Write the prices of the days around the demo."""
    file.write_text("\n".join(["utc,price", *_rows(), ""]))


def _rows() -> Iterator[str]:
    for hour in range(-2 * 24, 4 * 24):
        at_s = BEGIN_S + hour * HOUR_S
        yield f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%MZ},{price_at(at_s):g}"
