"""The drawn days of a trial: when a lever is off, so that its saving can be measured.

Each day of the week, or half of it, is on in one and off in the other of two weeks; a hash of the seed draws in which
(a randomised switchback). Anybody can draw the same days again from the seed.
"""

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta, tzinfo
from hashlib import sha256
from itertools import pairwise

from offpeak.ledger.rows import TrialBlock
from offpeak.settings.agent import AgentSettings

LEVERS = SLEEP, ORDER = "sleep", "order"
"""The levers that can be off: nodes that sleep; the order of the queue and the delays that owners permit."""
HALVES = {"day": (time(0),), "half-day": (time(0), time(12))}
"""The local times at which blocks begin."""


def draw_blocks(
    settings: AgentSettings, seed: str, *, first: date, zone: tzinfo, drawn_unix_s: float
) -> tuple[TrialBlock, ...]:
    """Return the blocks of all levers from the first day on, at local times: one may have an hour more or less."""
    halves, days = HALVES[settings.trial_block], settings.trial_days
    cells = [(number, half) for number in range(days) for half in range(len(halves))]
    begins = [datetime.combine(first + timedelta(days=number), halves[half], zone) for number, half in cells]
    end = datetime.combine(first + timedelta(days=days), time(0), zone)
    spans = list(pairwise(at.timestamp() for at in (*begins, end)))
    return tuple(
        TrialBlock(
            settings.trial or "",
            lever,
            from_unix_s,
            until_unix_s,
            is_on=is_first_on(f"{seed}/{lever}/{number // 14}/{number % 7}/{half}") == (number % 14 < 7),
            seed=seed,
            drawn_unix_s=drawn_unix_s,
        )
        for (number, half), (from_unix_s, until_unix_s) in zip(cells, spans, strict=True)
        for lever in (LEVERS if settings.trial_lever == "both" else (settings.trial_lever,))
    )


def is_first_on(cell: str) -> bool:
    """Return whether the lever is on in the first of the two weeks: the last bit of the SHA-256 of the cell.

    A cell is "SEED/LEVER/NUMBER OF THE TWO WEEKS/DAY/HALF", each counted from 0.
    """
    return bool(sha256(cell.encode()).digest()[-1] & 1)


def find_blocks(blocks: Iterable[TrialBlock], unix_s: float, *, is_on: bool | None = None) -> tuple[TrialBlock, ...]:
    """Return the block of each lever at that instant, only those that are on, or off, where `is_on` is given."""
    now = (block for block in blocks if block.from_unix_s <= unix_s < block.until_unix_s)
    return tuple(block for block in now if is_on is None or block.is_on is is_on)
