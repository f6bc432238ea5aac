"""When a kill comes: in the agent's start, some time later, or in the moment in which something happens."""

import random
import time
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.01
START_S, LATER_S, PATIENCE_S, AFTER_S = (0.0, 0.8), (0.8, 3.5), 5.0, (0.0, 0.15)
STREAMS = ("power.log", "programs.log", "ledger.sqlite-wal")
"""They grow when a node is told something, when Slurm calls a program, when the agent writes an intent."""


def wait_for_moment(folder: Path, chance: random.Random, meanwhile: Callable[[], None]) -> str:
    """Return what kind of moment it is, when it has come; `meanwhile` is called all the time."""
    kind = chance.choice(("in its start", "later", *STREAMS))
    if kind not in STREAMS:
        _pass(chance.uniform(*(START_S if kind == "in its start" else LATER_S)), meanwhile)
        return kind
    _pass(chance.uniform(*START_S), meanwhile)
    file, give_up_s = folder / kind, time.monotonic() + PATIENCE_S
    before = _changed(file)
    while _changed(file) == before and time.monotonic() < give_up_s:
        meanwhile()
        time.sleep(LOOK_S)
    _pass(chance.uniform(*AFTER_S), lambda: None)
    return kind


def _pass(seconds: float, meanwhile: Callable[[], None]) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        meanwhile()
        time.sleep(LOOK_S)


def _changed(file: Path) -> tuple[int, int]:
    try:
        stat = file.stat()
    except FileNotFoundError:
        return (0, 0)
    return (stat.st_size, stat.st_mtime_ns)
