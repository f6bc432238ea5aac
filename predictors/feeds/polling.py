"""When a feed is asked next: at its publication, not all sites in the same second, and ever rarer while it fails."""

from dataclasses import dataclass
from datetime import tzinfo
from random import Random

import numpy as np

from offpeak.model.local_time import DAY_S, local_days, to_local_s, to_unix_s
from predictors.feeds.port import Known, Window
from predictors.feeds.rows import known_s

JITTER_S = 300
FIRST_RETRY_S = 300
LONGEST_RETRY_S = 3600


@dataclass(frozen=True)
class Publication:
    """The times of day at which new values appear, in seconds after midnight of `clock`."""

    at_s: tuple[int, ...]
    clock: tzinfo

    def next_after(self, now_s: int) -> int:
        """Return the first publication after that instant [Unix s]."""
        midnights = local_days(now_s, now_s + 2 * DAY_S, self.clock) * DAY_S
        due_s, _ = to_unix_s(np.add.outer(midnights, np.array(self.at_s, np.int64)).ravel(), self.clock)
        return int(due_s[due_s > now_s].min())


@dataclass(frozen=True)
class Polled:
    """How the last poll went: whether all that was wanted came, else the how manyth failure in a row it was."""

    at_s: int
    complete: bool
    failures: int = 0
    retry_after_s: int = 0


def polled(known: Known, window: Window, now_s: int, before: Polled | None = None) -> Polled:
    """Return how the poll that brought `known` went."""
    complete = known.fresh and known_s(known.series, window) == window.until_s - window.from_s
    failures = 0 if complete else (before.failures if before else 0) + 1
    return Polled(now_s, complete, failures, max((trouble.retry_after_s for trouble in known.troubles), default=0))


def next_poll_s(last: Polled, publication: Publication, *, seed: int) -> int:
    """Return when to ask next [Unix s]: after what is published next, sooner if something failed or was missing.

    Failures wait 5 min, 10 min, ... up to an hour, and never less than the service asked for. `seed` is the site's own.
    """
    due_s = publication.next_after(last.at_s)
    due_s += Random(f"{seed} {due_s}").randrange(JITTER_S)
    allowed_s = last.at_s + last.retry_after_s
    if last.complete:
        return max(due_s, allowed_s)
    wait_s = min(FIRST_RETRY_S << min(last.failures - 1, 10), LONGEST_RETRY_S)
    wait_s += Random(f"{seed} {last.at_s}").randrange(wait_s // 4)
    return max(min(last.at_s + wait_s, due_s), allowed_s)


def day_ahead_window(now_s: int, publication: Publication) -> Window:
    """Return what an auction has published by now: all of today, and tomorrow once today's publication is past."""
    today = int(to_local_s(np.array([now_s], np.int64), publication.clock)[0]) // DAY_S
    midnights, _ = to_unix_s(DAY_S * np.arange(today, today + 3, dtype=np.int64), publication.clock)
    published = publication.next_after(int(midnights[0])) <= now_s
    return Window(int(midnights[0]), int(midnights[2 if published else 1]))
