"""A meter that does not answer is asked ever less often: a dead BMC must not cost its time-out in every round."""

from dataclasses import dataclass

LONGEST_PAUSE_S = 600.0


@dataclass(frozen=True)
class Silence:
    """So many times in a row a meter said nothing; it is asked again at `again_s` on the monotonic clock."""

    times: int
    again_s: float


def silence_after(before: Silence | None, *, now_s: float, period_s: float) -> Silence:
    """Return the silence after one more time: the next question is left out, then two, four, ... to ten minutes."""
    times = before.times + 1 if before else 1
    return Silence(times, now_s + min(period_s * 2.0 ** min(times, 16), max(LONGEST_PAUSE_S, period_s)))
