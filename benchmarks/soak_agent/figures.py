"""What a soak of kills measured, each figure beside its bar."""

from collections import Counter
from collections.abc import Iterator

from benchmarks.bars import Measured
from benchmarks.soak_agent.run import REST_S, Found

NO_BAR = float("inf")


def figures(found: Found) -> Iterator[Measured]:
    """Yield all figures."""
    plan = found.plan
    data = f"{plan.description}, {found.took_s:.0f} s; {_counted(found.moments)}"
    yield Measured("kills of the agent", len(found.runs) - 1, "", plan.kills, True, data)
    data = "jobs, power under jobs, limits, intents, the queue after a restore"
    yield Measured("broken invariants", len(found.broken), "", 0, False, data)
    yield Measured("jobs that came meanwhile", found.jobs, "", NO_BAR, False, f"{found.restored} waited at a restore")
    data = f"{found.intents} intents, {found.interrupted} of them interrupted; {found.wakes} times a node was woken"
    yield Measured("orders to sleep", found.sleeps, "", NO_BAR, False, data)
    yield Measured("other faults", found.faults.total(), "", NO_BAR, False, _counted(found.faults))
    data = "all jobs ended, idle nodes asleep, and woken for a wide job"
    yield Measured("seconds to rest after the last start", found.rest_s, "s", 3 * REST_S, False, data)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
