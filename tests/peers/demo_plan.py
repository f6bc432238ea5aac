"""What happens in the demo on Slurm: which jobs come when, and when the price falls."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

NODES = 10
JOBS = 40
BURSTS_S = (2.0, 14.0, 48.0, 66.0)
"""The jobs come in bursts that begin so long after the start: between them nodes are idle."""

DEAR, CHEAP = 210.0, 35.0
"""EUR/MWh."""
EDGE_AFTER_S = 45.0


@dataclass(frozen=True)
class Kind:
    """Jobs of one name, which all draw the same."""

    name: str
    watts: float


KINDS = (Kind("render", 320.0), Kind("archive", 130.0))


@dataclass(frozen=True)
class Coming:
    """A job: when it comes, and for how long it runs on how many nodes."""

    at_s: float
    kind: Kind
    seconds: int
    nodes: int


def jobs_to_come(seed: int = 1) -> tuple[Coming, ...]:
    """Return the jobs in the order in which they come; the same for the same seed."""
    chance = random.Random(seed)
    bursts = sorted(chance.choices(BURSTS_S, weights=(5, 2, 3, 2), k=JOBS))
    return tuple(
        Coming(at_s + 0.2 * place, chance.choice(KINDS), chance.randint(3, 8), chance.choice((1, 1, 1, 2)))
        for place, at_s in enumerate(bursts)
    )


def write_prices(file: Path, edge_unix_s: float) -> None:
    """Write a price for every minute of the day around that time: dear until the edge, then cheap."""
    edge_min = round(edge_unix_s / 60)
    rows = (f"{_utc(60 * at)},{DEAR if at < edge_min else CHEAP:g}" for at in _around(edge_min))
    file.write_text("\n".join(["utc,price", *rows, ""]))


def next_edge(now_unix_s: float) -> float:
    """Return the full minute at which the price falls, at least EDGE_AFTER_S from now."""
    return -((-now_unix_s - EDGE_AFTER_S) // 60) * 60


def _around(edge_min: int) -> Iterator[int]:
    yield from range(edge_min - 12 * 60, edge_min + 12 * 60)


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
