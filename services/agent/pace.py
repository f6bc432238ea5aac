"""How often the agent reads the scheduler: the more a reading costs the scheduler, the more rarely.

The agent takes at most SHARE of the scheduler's time. What a reading costs is what the scheduler counts for the agent's
user, or the requests times the latency of a small one if that is long. If the scheduler counts nothing, it is the time
that the commands took. A busy scheduler stretches the cycle too.
"""

from dataclasses import dataclass, replace
from statistics import median_low

from offpeak.plugin.scheduler.port import NO_LOAD, SchedulerLoad
from offpeak.services.agent.status import SchedulerUse

SHARE, URGENT_SHARE = 0.04, 0.5
"""The agent's part of the scheduler's time, usually and while an admin or a job waits for a node."""
BUSY_THREADS, LONG_BACKLOG = 32, 100
"""Above these the cycle grows in proportion. slurmctld works on 256 requests at once at the most."""
MOST_FACTOR = 8.0
LONGEST_S, LONGEST_SILENCE_S = 800.0, 300.0
"""The longest pause between two readings, and between two attempts if the scheduler does not answer."""
WINDOW_S = 600.0
"""The time of which the figures are."""
SLOW_S, QUICK_S = 2.0, 1.0
"""A small request that takes less may wait for the start of its command only; a reading without counters waits so long
for the start of its commands."""
REQUESTS_PER_READING = 8
"""Requests of a reading of Slurm."""
LEAST_SAMPLES = 3
"""A single slow reading of so many changes nothing."""


@dataclass(frozen=True)
class ReadingPace:
    """`pause_s` lies at least between the begins of two readings; `factor` stretches the cycle of a busy scheduler.

    `why` says what stretches the cycle, "" for nothing. `sums` are times [s, steady] with the requests and the busy
    seconds until then.
    """

    pause_s: float = 0.0
    factor: float = 1.0
    why: str = ""
    load: SchedulerLoad = NO_LOAD
    costs_s: tuple[float, ...] = (0.0, 0.0)
    sums: tuple[tuple[float, int, float], ...] = ()

    def period_s(self, cycle_s: float) -> float:
        """Return the time from one reading to the next for a cycle of the settings."""
        return max(cycle_s, min(LONGEST_S, max(self.pause_s, cycle_s * self.factor)))

    def urgent_s(self, cycle_s: float) -> float:
        """Return that time while an admin or a job waits for a node."""
        return max(cycle_s, self.pause_s * SHARE / URGENT_SHARE)

    def use(self, cycle_s: float) -> SchedulerUse:
        """Return what the agent costs the scheduler."""
        (from_s, first, first_s), (until_s, last, last_s) = (*self.sums[:1], *self.sums[-1:]) or 2 * ((0.0, 0, 0.0),)
        seconds, counts = until_s - from_s, self.load.requests is not None
        parts = [f"{60 * (last - first) / seconds:.0f} requests a minute"] if counts and seconds else []
        if seconds:
            share = f"{100 * (last_s - first_s) / seconds:.2g} % of its time"
            parts.append(share if counts else f"at most {share}, as our commands took")
        if self.load.user:
            parts.append(f"with all programs of {self.load.user}")
        if (period_s := self.period_s(cycle_s)) > cycle_s:
            parts.append(f"read every {period_s:.0f} s: {self.why}")
        return SchedulerUse(last if counts else None, last_s if self.sums else None, ", ".join(parts))


def after_reading(
    pace: ReadingPace, load: SchedulerLoad, *, at_s: float, took_s: float, per_s: float | None
) -> ReadingPace:
    """Return the pace after a reading that ended at `at_s` [s, steady] with this load.

    `per_s` is how many requests a second the scheduler takes of this user, None without a limit: the readings leave
    three quarters of them to orders.
    """
    limited_s = 4 * REQUESTS_PER_READING / per_s if per_s else 0.0
    requests, busy_s = _since(pace.load, load)
    if busy_s is None or requests is None:
        cost_s = max(0.0, took_s - QUICK_S)
    elif load.user:
        # Its other programs do not wait for the agent.
        cost_s = took_s if load.latency_s > SLOW_S else min(took_s, busy_s)
    else:
        cost_s = max(busy_s, requests * load.latency_s if load.latency_s > SLOW_S else 0.0)
    costs_s = (*pace.costs_s, cost_s)[-LEAST_SAMPLES:]
    pause_s = median_low(costs_s) / SHARE
    busy, backlog = (load.threads or 0) / BUSY_THREADS, (load.backlog or 0) / LONG_BACKLOG
    factor = min(MOST_FACTOR, max(1.0, busy, backlog))
    if factor > 1.0:
        why = f"the scheduler works on {load.threads} requests, {load.backlog} messages to nodes wait"
    elif limited_s > pause_s:
        why = f"the scheduler takes {per_s:g} requests a second from this user"
    else:
        why = f"a reading costs the scheduler {median_low(costs_s):.1f} s"
    sums: tuple[tuple[float, int, float], ...] = ((at_s, 0, 0.0),)
    if pace.sums:
        _, counted, counted_s = pace.sums[-1]
        window = tuple(each for each in pace.sums if each[0] >= at_s - WINDOW_S) or pace.sums[-1:]
        total_s = counted_s + (took_s if busy_s is None else busy_s)
        sums = (*window, (at_s, counted + (requests or 0), total_s))
    return ReadingPace(max(pause_s, limited_s), factor, why, load, costs_s, sums)


def after_failure(pace: ReadingPace, *, took_s: float) -> ReadingPace:
    """Return the pace after an attempt of that length to which the scheduler gave no answer."""
    pause_s = max(4 * took_s, min(pace.pause_s, LONGEST_SILENCE_S))
    why = f"the scheduler did not answer within {took_s:.0f} s"
    return replace(pace, pause_s=min(pause_s, LONGEST_SILENCE_S), why=why)


def _since(before: SchedulerLoad, now: SchedulerLoad) -> tuple[int | None, float | None]:
    """Return the requests and busy seconds between two readings: all of them if the counters began anew."""
    if now.requests is None or now.busy_s is None:
        return None, None
    if before.requests is None or before.busy_s is None:
        # What came before the agent's first reading is not its own.
        return None, None
    if now.requests < before.requests or now.busy_s < before.busy_s:
        return now.requests, now.busy_s
    return now.requests - before.requests, now.busy_s - before.busy_s
