"""One round over all meters of a site: read, turned into rows of the ledger, and what is worth a line in the log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.ledger.rows import MeterReading
from power.accounts.compared import Compared, compared
from power.accounts.meter_rows import Last, meter_rows
from power.accounts.silence import Silence, silence_after
from power.drivers.poll import ReportedProblem, limit_repeats
from power.lifecycle.node_record import Instant
from power.meters.port import Meter, MeterResult, read_meters

Name = tuple[str, str]
"""A meter and its way of being read."""

HELD = 3
"""A reading counts until the next one, for so many rounds at most: after that there is a gap."""


@dataclass(frozen=True)
class Pace:
    """A round each `period_s`; a meter has `timeout_s` to answer."""

    period_s: float
    timeout_s: float


@dataclass(frozen=True)
class Metering:
    """What is known of the meters after a round; the first begins with none of it."""

    last: Last = field(default_factory=dict)
    silent: Mapping[Name, Silence] = field(default_factory=dict)
    said: Mapping[Name, ReportedProblem] = field(default_factory=dict)
    compared: Compared | None = None


@dataclass(frozen=True)
class MeterRound:
    """What a round came to: `rows` are for the ledger, `lines` for the log."""

    after: Metering
    rows: tuple[MeterReading, ...]
    lines: tuple[str, ...]


async def meter_round(
    meters: Sequence[Meter], before: Metering, *, pace: Pace, clock: Callable[[], Instant]
) -> MeterRound:
    """Ask all meters that are due, at the same time, `timeout_s` at the most. Without meters nothing is done."""
    due = [meter for meter in meters if _is_due(before.silent.get((meter.name, meter.way)), clock().monotonic_s)]
    taken = await read_meters(due, timeout_s=pace.timeout_s)
    return after_round(before, taken, pace=pace, now=clock())


def after_round(before: Metering, taken: Sequence[MeterResult], *, pace: Pace, now: Instant) -> MeterRound:
    """Return what a round came to in which this was taken."""
    hold_s = HELD * pace.period_s
    last, rows = meter_rows(before.last, taken, now_unix_s=now.unix_s, longest_hold_s=hold_s)
    silent, said = dict(before.silent), dict(before.said)
    lines = [line for each in taken if (line := _heard(each, silent, said, pace, now))]
    begun = before.compared or Compared(now.monotonic_s)
    beside, differences = compared(begun, taken, now_s=now.monotonic_s, longest_hold_s=hold_s)
    return MeterRound(Metering(last, silent, said, beside), tuple(rows), (*lines, *differences))


def _is_due(silence: Silence | None, now_s: float) -> bool:
    return silence is None or now_s >= silence.again_s


def _heard(
    taken: MeterResult, silent: dict[Name, Silence], said: dict[Name, ReportedProblem], pace: Pace, now: Instant
) -> str | None:
    """Keep whether a meter is silent, and return the line that is due about it."""
    name = (taken.meter, taken.way)
    trouble = None if taken.trouble is None else str(taken.trouble)
    if trouble is None:
        silent.pop(name, None)
    else:
        silent[name] = silence_after(silent.get(name), now_s=now.monotonic_s, period_s=pace.period_s)
    now_said, line = limit_repeats(said.pop(name, None), trouble, at_unix_s=now.unix_s)
    if now_said is not None:
        said[name] = now_said
    return f"{taken.meter} ({taken.way}): {line}" if line else None
