"""What a soak of cycles measured, each figure beside its bar."""

from collections import Counter
from collections.abc import Iterator

from benchmarks.bars import Measured
from benchmarks.soak.footprint import rise_mib
from benchmarks.soak_cycles.found import Found
from benchmarks.soak_cycles.run import CONVERGES_SWEEPS

NO_BAR = float("inf")
RISE_MIB = 2.0


def figures(found: Found) -> tuple[Measured, ...]:
    """Return all figures."""
    return (*_cycles(found), *_faults(found), *_held(found))


def _cycles(found: Found) -> Iterator[Measured]:
    plan, room, witness = found.plan, found.room, found.witness
    days = found.clock.monotonic_s / 86_400
    data = f"{plan.bmcs} BMCs, every fourth by Redfish, {room.sweep} sweeps, {days:.1f} days in {found.took_s:.0f} s"
    yield Measured("nodes put to sleep and woken again", room.cycles, "cycles", plan.cycles, True, data)
    data = "jobs, unknown states, limits, logs, intents; by the wires and the BMCs' own logs"
    yield Measured("broken invariants", len(witness.broken), "", 0, False, data)
    data = ", ".join(f"{limit} {share:.2f}" for limit, share in witness.most.items())
    yield Measured("most of a limit that was used", max(witness.most.values(), default=0.0), "", 1.0, False, data)
    data = f"{found.actions} actions in the ledger"
    yield Measured("orders on the wires", found.passed, "", NO_BAR, False, data)
    yield Measured("orders that reached BMCs", witness.orders, "", NO_BAR, False, data)
    data = "all faults over, half to sleep, half to wake"
    yield Measured("sweeps until all are as wished", found.converged_sweeps, "", CONVERGES_SWEEPS, False, data)
    yield Measured("orders in shadow mode", found.shadow_orders, "", 0, False, "by the BMCs' own logs")


def _faults(found: Found) -> Iterator[Measured]:
    yield Measured("faults", found.room.faults.total(), "", NO_BAR, False, _counted(found.room.faults))
    yield Measured("what the door was asked", found.answers.total(), "", NO_BAR, False, _counted(found.answers))
    yield Measured("events", found.events.total(), "", NO_BAR, False, _counted(found.events))
    yield Measured("rows that the ledger lost", found.lost_rows, "", 0, False, "locked at times")


def _held(found: Found) -> Iterator[Measured]:
    before, after = found.before, found.after
    for what in ("files", "threads", "tasks"):
        first, last = getattr(before, what), getattr(after, what)
        yield Measured(f"more {what} after than before", last - first, "", 0, False, f"{first} before, {last} after")
    data = "by the BMCs' own logs"
    yield Measured("sessions open after the last log-out", found.open_sessions, "", 0, False, data)
    rss_mib = found.rss_mib
    if len(rss_mib) < 10:
        return
    data = (
        f"{rss_mib[0]:.1f} MiB after restart and a day, {max(rss_mib):.1f} MiB at most, {rss_mib[-1]:.1f} MiB at last"
    )
    yield Measured("memory, last tenth above second tenth", rise_mib(rss_mib), "MiB", RISE_MIB, False, data)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common() if name)
