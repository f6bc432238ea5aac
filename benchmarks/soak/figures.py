"""What a soak measured, each beside its bar."""

import os
from collections.abc import Iterator

from benchmarks.bars import Measured
from benchmarks.soak.faults import DEAD
from benchmarks.soak.footprint import rise_mib, slope_mib_per_h
from benchmarks.soak.run import Soaked

NO_BAR = float("inf")
SLOPE_MIB_PER_H, RISE_MIB = 1.0, 2.0
LINES = 10
LIVE_S = 1.0
PLACES_TAKEN = 4
"""A BMC has five places for sessions, as few as real ones have: with so many taken there is one to log in."""


def figures(soaked: Soaked) -> tuple[Measured, ...]:
    """Return all figures of a soak."""
    return (*_answers(soaked), *_sessions(soaked), *_held(soaked), *_memory(soaked))


def _answers(soaked: Soaked) -> Iterator[Measured]:
    seen, plan = soaked.seen, soaked.plan
    data = f"{plan.sweeps} sweeps over {plan.bmcs} BMCs and {plan.pdus} PDUs, {soaked.took_s:.0f} s"
    yield Measured("faults, counted sweep by sweep", sum(seen.faults.values()), "", NO_BAR, False, _counted(soaked))
    yield Measured("orders given", soaked.orders.given.total(), "", NO_BAR, False, "on or soft-off, to random nodes")
    yield Measured("answers that were wrong", len(seen.wrong), "", 0, False, data)
    data = f"of devices without fault; {os.getloadavg()[1]:.1f} processes wanted to run, the soak's among them"
    yield Measured("answers that were lacking", len(seen.lacking), "", 0, False, data)
    yield Measured("slowest BMC without fault", seen.slowest_s, "s", LIVE_S, False, "all asked at once, with the PDUs")
    worst = seen.ledger.worst(soaked.orders.given)
    data = "node's joules; the bound is rounding, and a step at 700 W for each order"
    yield Measured("energy: most of its bound that a node used", worst, "", 1.0, False, data)
    yield Measured("all energy is off by", seen.ledger.off_percent, "%", NO_BAR, False, "while watts were known")
    lines = seen.log.lines[DEAD]
    yield Measured("lines about the BMC that is always dead", lines, "", LINES, False, "worth_saying")
    device, most = max(seen.log.lines.items(), key=lambda item: item[1])
    yield Measured("most lines about any device", most, "", NO_BAR, False, device)


def _sessions(soaked: Soaked) -> Iterator[Measured]:
    seen = soaked.seen
    yield Measured("BMCs with a second session in use", len(seen.leaks), "", 0, False, "by their own count")
    data = "nobody could close them; one BMC"
    yield Measured("sessions left while silent, at most", seen.left_sessions, "", PLACES_TAKEN, False, data)
    yield Measured("sessions open after the last log-out", soaked.left_open, "", 0, False, "all BMCs")


def _held(soaked: Soaked) -> Iterator[Measured]:
    for what in ("files", "threads", "tasks"):
        before, after = getattr(soaked.before, what), getattr(soaked.after, what)
        during = [getattr(footprint, what) for footprint in soaked.seen.footprints]
        data = f"{before} before, {min(during)} to {max(during)} between sweeps, {after} after"
        yield Measured(f"more {what} after than before", after - before, "", 0, False, data)
        # A PDU with a fault has no socket of gufo-snmp until it has answered again.
        most = soaked.plan.pdus if what == "files" else 0
        yield Measured(f"{what} that came or went between sweeps", max(during) - min(during), "", most, False, "")


def _memory(soaked: Soaked) -> Iterator[Measured]:
    rss_mib, step_s = [footprint.rss_mib for footprint in soaked.seen.footprints], soaked.plan.step_s
    data = f"{rss_mib[0]:.1f} MiB at first, {max(rss_mib):.1f} MiB at most, {rss_mib[-1]:.1f} MiB at last"
    yield Measured("memory grows by", slope_mib_per_h(rss_mib, step_s), "MiB/h", SLOPE_MIB_PER_H, False, data)
    yield Measured("memory, last tenth above second tenth", rise_mib(rss_mib), "MiB", RISE_MIB, False, "medians")


def _counted(soaked: Soaked) -> str:
    return ", ".join(f"{count} {fault}" for fault, count in soaked.seen.faults.most_common())
