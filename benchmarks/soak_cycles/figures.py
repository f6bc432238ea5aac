"""What a soak of cycles measured, each figure beside its bar."""

from collections import Counter
from collections.abc import Iterator

from benchmarks.bars import Measured
from benchmarks.soak.footprint import rise_mib
from benchmarks.soak_cycles.run import CONVERGES_SWEEPS, Cycled

NO_BAR = float("inf")
RISE_MIB = 2.0


def figures(cycled: Cycled) -> tuple[Measured, ...]:
    """Return all figures."""
    return (*_cycles(cycled), *_faults(cycled), *_held(cycled))


def _cycles(cycled: Cycled) -> Iterator[Measured]:
    plan, room, witness = cycled.plan, cycled.room, cycled.witness
    days = cycled.clock.monotonic_s / 86_400
    data = f"{plan.bmcs} ipmi_sim, {room.sweep} sweeps, {days:.1f} days in {cycled.took_s:.0f} s"
    yield Measured("nodes put to sleep and woken again", room.cycles, "cycles", plan.cycles, True, data)
    data = "jobs, unknown states, limits, logs, intents; by the BMCs' own logs"
    yield Measured("broken invariants", len(witness.broken), "", 0, False, data)
    data = ", ".join(f"{limit} {share:.2f}" for limit, share in witness.most.items())
    yield Measured("most of a limit that was used", max(witness.most.values(), default=0.0), "", 1.0, False, data)
    data = f"{cycled.actions} actions in the ledger"
    yield Measured("orders that reached BMCs", witness.orders, "", NO_BAR, False, data)
    data = "all faults over, half to sleep, half to wake"
    yield Measured("sweeps until all are as wished", cycled.converged_sweeps, "", CONVERGES_SWEEPS, False, data)
    yield Measured("orders in shadow mode", cycled.shadow_orders, "", 0, False, "by the BMCs' own logs")


def _faults(cycled: Cycled) -> Iterator[Measured]:
    yield Measured("faults", cycled.room.faults.total(), "", NO_BAR, False, _counted(cycled.room.faults))
    yield Measured("what the door was asked", cycled.answers.total(), "", NO_BAR, False, _counted(cycled.answers))
    yield Measured("events", cycled.events.total(), "", NO_BAR, False, _counted(cycled.events))
    yield Measured("rows that the ledger lost", cycled.lost_rows, "", 0, False, "locked at times")


def _held(cycled: Cycled) -> Iterator[Measured]:
    before, after = cycled.before, cycled.after
    for what in ("files", "threads", "tasks"):
        first, last = getattr(before, what), getattr(after, what)
        yield Measured(f"more {what} after than before", last - first, "", 0, False, f"{first} before, {last} after")
    rss_mib = cycled.rss_mib
    if len(rss_mib) < 10:
        return
    data = f"{rss_mib[0]:.1f} MiB after a day, {max(rss_mib):.1f} MiB at most, {rss_mib[-1]:.1f} MiB at last"
    yield Measured("memory, last tenth above second tenth", rise_mib(rss_mib), "MiB", RISE_MIB, False, data)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.most_common() if word)
