"""Bidding zones and markets: their names at each source, their clock, and when they publish and are polled.

A feed is polled at its publication, not by all sites in the same second, and less often while it fails.
"""

from dataclasses import dataclass
from datetime import tzinfo
from random import Random

import numpy as np

from offpeak.errors import BadSetting
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import local_days, parse_zone, to_local_s, to_unix_s
from offpeak.text import did_you_mean
from predictors.feeds.port import KnownSeries, Window, known_s

JITTER_S = 300
FIRST_RETRY_S = 300
LONGEST_RETRY_S = HOUR_S


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
class PollResult:
    """How the last poll went: whether all that was wanted came, else the how manyth failure in a row it was."""

    at_s: int
    complete: bool
    failures: int = 0
    retry_after_s: int = 0


def poll_result(known: KnownSeries, window: Window, now_s: int, before: PollResult | None = None) -> PollResult:
    """Return how the poll that brought `known` went."""
    complete = known.fresh and known_s(known.series, window) == window.until_s - window.from_s
    failures = 0 if complete else (before.failures if before else 0) + 1
    return PollResult(now_s, complete, failures, max((problem.retry_after_s for problem in known.problems), default=0))


def next_poll_s(last: PollResult, publication: Publication, *, seed: int) -> int:
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


@dataclass(frozen=True)
class Market:
    """One zone: its names at the sources, "" where a source does not publish it.

    `published_s` is when the day-ahead auction's result is out, in seconds after midnight of `clock`. `place` is the
    hub or load zone inside an American market.
    """

    zone: str
    maps: str
    entsoe: str = ""
    nord_pool: str = ""
    place: str = ""
    # The days of the coupled European auction are those of central Europe, in Helsinki and Lisbon too.
    clock: str = "Europe/Brussels"
    published_s: int = 12 * HOUR_S + 45 * 60

    @property
    def country(self) -> str:
        """The country whose public holidays are quiet days there."""
        return self.maps[:2]

    @property
    def publication(self) -> Publication:
        """When new prices appear."""
        return Publication((self.published_s,), parse_zone(self.clock))


def _american(zone: str, maps: str, clock: str, published: tuple[int, int]) -> Market:
    return Market(zone, maps, clock=clock, published_s=published[0] * HOUR_S + published[1] * 60)


MARKETS: tuple[Market, ...] = (
    Market("DE-LU", "DE", "DE_LU", "GER"),
    Market("AT", "AT", "AT", "AT"),
    Market("BE", "BE", "BE", "BE"),
    Market("FR", "FR", "FR", "FR"),
    Market("NL", "NL", "NL", "NL"),
    Market("PL", "PL", "PL", "PL"),
    Market("CH", "CH", "CH"),
    Market("CZ", "CZ", "CZ"),
    Market("HU", "HU", "HU"),
    Market("SI", "SI", "SI"),
    Market("ES", "ES", "ES"),
    Market("PT", "PT", "PT"),
    Market("IT-North", "IT-NO", "IT_NORD"),
    Market("DK1", "DK-DK1", "DK_1", "DK1"),
    Market("DK2", "DK-DK2", "DK_2", "DK2"),
    *(Market(f"NO{i}", f"NO-NO{i}", f"NO_{i}", f"NO{i}") for i in range(1, 6)),
    *(Market(f"SE{i}", f"SE-SE{i}", f"SE_{i}", f"SE{i}") for i in range(1, 5)),
    Market("FI", "FI", "FI", "FI"),
    Market("EE", "EE", "EE", "EE"),
    Market("LV", "LV", "LV", "LV"),
    Market("LT", "LT", "LT", "LT"),
    _american("CAISO", "US-CAL-CISO", "America/Los_Angeles", (13, 0)),
    _american("ERCOT", "US-TEX-ERCO", "America/Chicago", (13, 30)),
    _american("ISONE", "US-NE-ISNE", "America/New_York", (13, 30)),
    # Its days are those of Eastern Standard Time, in summer too.
    _american("MISO", "US-MIDW-MISO", "-05:00", (13, 30)),
    _american("NYISO", "US-NY-NYIS", "America/New_York", (11, 0)),
    _american("PJM", "US-MIDA-PJM", "America/New_York", (13, 30)),
)
BY_ZONE = {market.zone: market for market in MARKETS}


def find_market(text: str) -> Market:
    """Return the market of "DE-LU", or of "CAISO/TH_NP15_GEN-APND" with the place inside it; BadSetting otherwise."""
    zone, _, place = text.partition("/")
    if zone not in BY_ZONE:
        raise BadSetting(f"feeds.zone: {text!r} is not a known zone", hint=did_you_mean(zone, BY_ZONE))
    market = BY_ZONE[zone]
    if bool(place) == bool(market.entsoe):
        raise BadSetting(f"feeds.zone: {text!r}", hint="DE-LU has no place, CAISO needs one: CAISO/TH_NP15_GEN-APND")
    return Market(
        zone=zone,
        maps=market.maps,
        entsoe=market.entsoe,
        nord_pool=market.nord_pool,
        place=place,
        clock=market.clock,
        published_s=market.published_s,
    )
