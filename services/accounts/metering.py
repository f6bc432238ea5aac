"""One round over all meters of a site: readings, their rows of the ledger, and lines for the log.

A value holds until the next one, at most `longest_hold_s` or what the reading says; a value of RAPL is the mean since
the previous reading. A longer time is a gap, a row without a value and with the reason. If the clock goes back, that
part starts again. A meter that does not answer is read less and less often, because a dead BMC must not cost its
time-out in every round. Refused readings are gaps. Once in a quarter-hour the meters of a node are compared: outlets
with BMCs and processors, and counters with watts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from offpeak.ledger.energy_use import GPU, WAYS
from offpeak.ledger.rows import MeterReading
from offpeak.machines.inventory import BMC_WAYS, Enclosure
from offpeak.power.drivers.poll import ReportedProblem, limit_repeats
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters import energy
from offpeak.power.meters.plausibility import DrawBound, PartHistory, check_reading, find_enclosure_bound
from offpeak.power.meters.port import Meter, MeterResult, Reading, read_meters

LONGEST_PAUSE_S = 600.0


@dataclass(frozen=True)
class Silence:
    """The number of readings in a row that a meter did not answer; it is read again at `again_s` (monotonic)."""

    times: int
    again_s: float


def next_silence(before: Silence | None, *, now_s: float, period_s: float) -> Silence:
    """Return the silence after one more time: one round is left out, then two, four, ... up to ten minutes."""
    times = before.times + 1 if before else 1
    return Silence(times, now_s + min(period_s * 2.0 ** min(times, 16), max(LONGEST_PAUSE_S, period_s)))


COMPARE_EVERY_S = 900.0


@dataclass(frozen=True)
class MeterComparison:
    """The energies since `since_s` (monotonic), and the problems of the last comparison by subject."""

    since_s: float
    sums: Mapping[energy.Part, energy.Energy] = field(default_factory=dict)
    counts: Mapping[energy.Part, energy.CounterTotal] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def next_comparison(
    before: MeterComparison, taken: Iterable[MeterResult], *, now_s: float, longest_hold_s: float
) -> tuple[MeterComparison, tuple[str, ...]]:
    """Return the energies after a round, and once in a quarter-hour the problems that have begun or ended."""
    read = tuple(taken)
    after = replace(
        before,
        sums=energy.add_readings(before.sums, read, longest_hold_s=longest_hold_s),
        counts=energy.add_counter_values(before.counts, read),
    )
    if now_s - before.since_s < COMPARE_EVERY_S:
        return after, ()
    places = {
        f"{node}, {difference.outer} and {difference.inner}": difference.problem
        for node, of_node in energy.compare_meters(after.sums).items()
        for difference in of_node
        if difference.problem
    }
    counters = energy.find_contradictions(after.sums, after.counts).items()
    wrong = places | {f"{meter} {part}, counter and watts": reported for (meter, _, part, _), reported in counters}
    begun = [f"{of}: {reported}" for of, reported in wrong.items() if of not in before.wrong]
    ended = [f"{of}: agree again" for of in before.wrong if of not in wrong]
    return MeterComparison(now_s, wrong=wrong), (*begun, *ended)


LatestReadings = Mapping[energy.Part, Reading]
"""The latest reading of every part."""

OF_THE_TIME_BEFORE = frozenset({"rapl"})
"""Ways of reading whose watts are the mean since the previous reading, from a counter of energy."""


def make_meter_rows(
    last: LatestReadings, taken: Iterable[MeterResult], *, now_unix_s: float, longest_hold_s: float
) -> "tuple[LatestReadings, list[MeterReading]]":
    """Return the latest readings after a round, and the rows of the time since those before."""
    after, rows = dict(last), list[MeterReading]()
    for reading in _readings(last, taken, now_unix_s):
        part = energy.part_of(reading)
        before = after.get(part)
        if before is None or before.at_unix_s != reading.at_unix_s:
            after[part] = reading
        if before is not None and before.at_unix_s < reading.at_unix_s:
            rows += _between(before, reading, longest_hold_s)
    return after, rows


def _readings(last: LatestReadings, taken: Iterable[MeterResult], now_unix_s: float) -> Iterator[Reading]:
    """Yield the readings; a silent meter gives a reading without a value for each of its parts."""
    silent = {(result.meter, result.way): str(result.error) for result in taken if result.error is not None}
    for result in taken:
        yield from result.readings
    for reading in last.values():
        why = silent.get((reading.meter, reading.way))
        if why is not None:
            yield replace(reading, power_w=None, energy_j=None, at_unix_s=now_unix_s, why=why)


def _between(before: Reading, reading: Reading, longest_hold_s: float) -> Iterator[MeterReading]:
    from_s, until_s = before.at_unix_s, reading.at_unix_s
    holds = reading if reading.way in OF_THE_TIME_BEFORE else before
    if holds.power_w is None:
        yield _row(reading, from_s, until_s, None, holds.why or "no value")
        return
    held_until_s = until_s if holds is reading else min(until_s, from_s + max(longest_hold_s, holds.holds_s))
    yield _row(reading, from_s, held_until_s, holds.power_w)
    if held_until_s < until_s:
        why = reading.why or f"not read for {until_s - from_s:.0f} s"
        yield _row(reading, held_until_s, until_s, None, why)


def _row(of: Reading, from_s: float, until_s: float, power_w: float | None, why: str = "") -> MeterReading:
    return MeterReading(of.meter, of.way, of.part, from_s, until_s, power_w, node=of.node, why=why)


MeterName = tuple[str, str]
"""A meter and its way of being read."""

HELD_PERIODS = 3
"""The most rounds for which a reading holds; after that there is a gap."""


@dataclass(frozen=True)
class Pace:
    """A round each `period_s`; a meter has `timeout_s` to answer."""

    period_s: float
    timeout_s: float


@dataclass(frozen=True)
class Metering:
    """The state of the meters after a round; the first round begins with an empty one."""

    last: LatestReadings = field(default_factory=dict)
    silent: Mapping[MeterName, Silence] = field(default_factory=dict)
    reported: Mapping[MeterName, ReportedProblem] = field(default_factory=dict)
    compared: MeterComparison | None = None
    histories: Mapping[energy.Part, PartHistory] = field(default_factory=dict)


@dataclass(frozen=True)
class MeteredSite:
    """What is known of metered nodes: the bound of a node's power, and enclosures by their names and nodes."""

    node_bound: Callable[[str], DrawBound] = lambda _: DrawBound()
    enclosure_of: Mapping[str, Enclosure] = field(default_factory=dict)

    def bound_of(self, reading: Reading) -> DrawBound:
        """Return the bound of a reading's power."""
        if (enclosure := self.measured_enclosure(reading)) is not None:
            return find_enclosure_bound(enclosure.name, [self.node_bound(node) for node in enclosure.nodes])
        return self.node_bound(reading.node) if reading.node else DrawBound()

    def measured_enclosure(self, reading: Reading) -> Enclosure | None:
        """Return the enclosure whose power the reading is, None if it is not that of an enclosure."""
        found = self.enclosure_of.get(reading.node or "")
        return found if found is not None and found.is_measured(reading.node, reading.way) else None


def check_readings(
    before: Metering, taken: Iterable[MeterResult], site: MeteredSite
) -> tuple[Metering, tuple[MeterResult, ...], tuple[tuple[Reading, ...], ...]]:
    """Return the state before this round, the results without refused values, and doubtful readings that they confirm.

    The last of the confirmed readings of a part is its latest one before this round. Parts of enclosures stay gaps.
    """
    last, histories, checked = dict(before.last), dict(before.histories), list[MeterResult]()
    confirmed = list[tuple[Reading, ...]]()
    for result in taken:
        readings = list[Reading]()
        for reading in result.readings:
            # The power of a GPU may be far above that of a minute ago, or the same for days.
            if reading.way == GPU:
                readings.append(reading)
                continue
            part = energy.part_of(reading)
            known = histories.get(part, PartHistory())
            kept, waited, histories[part] = check_reading(reading, known, site.bound_of(reading))
            readings.append(kept)
            if waited and site.measured_enclosure(reading) is None:
                last[part] = waited[-1]
                confirmed.append(waited)
        checked.append(replace(result, readings=tuple(readings)))
    return replace(before, last=last, histories=histories), tuple(checked), tuple(confirmed)


def share_enclosures(taken: Sequence[MeterResult], site: MeteredSite, now_unix_s: float) -> tuple[MeterResult, ...]:
    """Return the results with the power of each enclosure counted once, as parts of its nodes.

    It is that of all its outlets, else the median of what its BMCs report. A node gets its own power and an equal part
    of the rest, the overhead; an equal part of everything if a node's own is not known. A reading of the enclosure
    belongs to no node.
    """
    if not site.enclosure_of:
        return tuple(taken)
    results, of = list[MeterResult](), defaultdict[str, list[Reading]](list)
    for result in taken:
        for reading in result.readings:
            if reading.node and reading.node in site.enclosure_of:
                of[site.enclosure_of[reading.node].name].append(reading)
        readings = (replace(each, node=None) if site.measured_enclosure(each) else each for each in result.readings)
        results.append(replace(result, readings=tuple(readings)))
    measured = {each.name: each for each in site.enclosure_of.values() if each.outlets or each.by_bmc}
    parts = (MeterResult(name, "enclosure", _share(each, of[name], now_unix_s)) for name, each in measured.items())
    return (*results, *parts)


def _share(enclosure: Enclosure, readings: Sequence[Reading], now_unix_s: float) -> tuple[Reading, ...]:
    outlets_w = [reading.power_w for reading in readings if reading.node == enclosure.name]
    known = [reading for reading in readings if reading.power_w is not None]
    bmcs_w = [each.power_w or 0.0 for each in known if each.way in BMC_WAYS] if enclosure.by_bmc else []
    if enclosure.outlets:
        complete = len(outlets_w) == enclosure.outlets and None not in outlets_w
        power_w = sum(each or 0.0 for each in outlets_w) if complete else None
    else:
        power_w = median(bmcs_w) if bmcs_w else None
    blank = Reading(enclosure.name, "enclosure", "part", None, now_unix_s, why=f"not all of {enclosure.name} is known")
    if power_w is None:
        return tuple(replace(blank, node=node) for node in enclosure.nodes)
    by_way: dict[str, dict[str, float]] = {node: {} for node in enclosure.nodes}
    for each in known:
        if each.node in by_way and each.way in WAYS and not enclosure.is_measured(each.node, each.way):
            ways = by_way[each.node]
            ways[each.way] = ways.get(each.way, 0.0) + (each.power_w or 0.0)
    own_w = [ways[min(ways, key=WAYS.index)] if ways else None for ways in by_way.values()]
    base_w = [each or 0.0 for each in own_w] if None not in own_w else [0.0] * len(own_w)
    # Meters are rounded: nodes may show more than their enclosure.
    scale = min(1.0, power_w / sum(base_w)) if any(base_w) else 1.0
    rest_w = (power_w - scale * sum(base_w)) / len(base_w)
    at_unix_s = max(reading.at_unix_s for reading in readings)
    whole = replace(blank, at_unix_s=at_unix_s, why="")
    parts = zip(enclosure.nodes, base_w, strict=True)
    return tuple(replace(whole, node=node, power_w=scale * each_w + rest_w) for node, each_w in parts)


@dataclass(frozen=True)
class MeterRound:
    """The result of a round: `rows` are for the ledger, `lines` for the log."""

    after: Metering
    rows: tuple[MeterReading, ...]
    lines: tuple[str, ...]


async def read_all_meters(
    meters: Sequence[Meter],
    before: Metering,
    *,
    pace: Pace,
    clock: Callable[[], Instant],
    site: MeteredSite = MeteredSite(),
) -> MeterRound:
    """Read all meters that are due at the same time, for `timeout_s` at the most."""
    taken = await read_due_meters(meters, before, pace=pace, now_s=clock().monotonic_s)
    return after_round(before, taken, pace=pace, now=clock(), site=site)


async def read_due_meters(
    meters: Sequence[Meter], before: Metering, *, pace: Pace, now_s: float
) -> tuple[MeterResult, ...]:
    """Return the readings of the meters that are due; one that was silent is left out for a while."""
    silent = before.silent
    due = [each for each in meters if (name := (each.name, each.way)) not in silent or now_s >= silent[name].again_s]
    return await read_meters(due, timeout_s=pace.timeout_s)


def after_round(
    before: Metering, taken: Sequence[MeterResult], *, pace: Pace, now: Instant, site: MeteredSite = MeteredSite()
) -> MeterRound:
    """Return the result of a round with these readings."""
    before, taken, confirmed = check_readings(before, taken, site)
    taken = share_enclosures(taken, site, now.unix_s)
    hold_s = HELD_PERIODS * pace.period_s
    pairs = (pair for waited in confirmed for pair in pairwise(waited) if pair[0].at_unix_s < pair[1].at_unix_s)
    late = [row for pair in pairs for row in _between(*pair, hold_s)]
    last, rows = make_meter_rows(before.last, taken, now_unix_s=now.unix_s, longest_hold_s=hold_s)
    silent, reported, lines = dict(before.silent), dict(before.reported), list[str]()
    for result in taken:
        name, problem = (result.meter, result.way), None if result.error is None else str(result.error)
        if problem is None:
            silent.pop(name, None)
        else:
            silent[name] = next_silence(silent.get(name), now_s=now.monotonic_s, period_s=pace.period_s)
        new_report, line = limit_repeats(reported.pop(name, None), problem, at_unix_s=now.unix_s)
        if new_report is not None:
            reported[name] = new_report
        if line:
            lines.append(f"{result.meter} ({result.way}): {line}")
    begun = before.compared or MeterComparison(now.monotonic_s)
    beside, differences = next_comparison(begun, taken, now_s=now.monotonic_s, longest_hold_s=hold_s)
    after = Metering(last, silent, reported, beside, before.histories)
    return MeterRound(after, (*late, *rows), (*lines, *differences))
