"""What a study is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[int, int], None]
"""Is told how many replays are done, and of how many."""


@dataclass(frozen=True)
class Order:
    """The folder of logs (None: a generated one), the folder for results, and how often each case is replayed.

    Replay number i of a case draws its chances from the seed (seed, i), whatever the number of `processes`. `prices` is
    a price file, None the bundled one, for studies that have no tariff of their own; for day-ahead a folder.
    """

    logs: Path | None
    out: Path
    replays: int
    seed: int
    processes: int
    prices: Path | None = None
