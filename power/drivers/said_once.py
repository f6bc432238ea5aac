"""Which troubles are worth a line: a BMC that is dead for a week does not fill the disk with saying so."""

from dataclasses import dataclass

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 86_400.0


@dataclass(frozen=True)
class Said:
    """What was said last of a device: its trouble, since when, how often it was met, and when it is said again."""

    trouble: str
    since_unix_s: float
    times: int
    again_unix_s: float
    pause_s: float


def worth_saying(said: Said | None, trouble: str | None, *, at_unix_s: float) -> tuple[Said | None, str | None]:
    """Return what to remember and the line to write, None for none. `said` is what was returned the last time.

    A new trouble is a line; the same one is a line after a minute, then after twice as long each time, to a day; its
    end is a line too.
    """
    if trouble is None:
        return None, None if said is None else f"well again after {_count(said, at_unix_s)}: {said.trouble}"
    if said is None or said.trouble != trouble:
        return Said(trouble, at_unix_s, 1, at_unix_s + FIRST_PAUSE_S, FIRST_PAUSE_S), trouble
    times = said.times + 1
    if at_unix_s < said.again_unix_s:
        return Said(trouble, said.since_unix_s, times, said.again_unix_s, said.pause_s), None
    pause_s = min(2 * said.pause_s, LONGEST_PAUSE_S)
    now = Said(trouble, said.since_unix_s, times, at_unix_s + pause_s, pause_s)
    return now, f"{trouble} ({_count(now, at_unix_s)})"


def _count(said: Said, at_unix_s: float) -> str:
    return f"{said.times} times in {at_unix_s - said.since_unix_s:,.0f} s"
