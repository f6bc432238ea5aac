"""Bidding zones and markets: what each source calls them, whose clock their days follow, and when they publish."""

from dataclasses import dataclass

from offpeak.errors import BadSetting
from offpeak.model.local_time import parse_zone
from offpeak.text import did_you_mean
from predictors.feeds.polling import Publication


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
    published_s: int = 12 * 3600 + 45 * 60

    @property
    def country(self) -> str:
        """The country whose public holidays are quiet days there."""
        return self.maps[:2]

    @property
    def publication(self) -> Publication:
        """When new prices appear."""
        return Publication((self.published_s,), parse_zone(self.clock))


def _american(zone: str, maps: str, clock: str, published: tuple[int, int]) -> Market:
    return Market(zone, maps, clock=clock, published_s=published[0] * 3600 + published[1] * 60)


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


def market_of(text: str) -> Market:
    """Return the market of "DE-LU", or of "CAISO/TH_NP15_GEN-APND" with the place inside it; BadSetting otherwise."""
    zone, _, place = text.partition("/")
    if zone not in BY_ZONE:
        raise BadSetting(f"feeds.zone: {text!r} is not a known zone", hint=did_you_mean(zone, BY_ZONE))
    market = BY_ZONE[zone]
    if bool(place) == bool(market.entsoe):
        raise BadSetting(f"feeds.zone: {text!r}", hint="DE-LU has no place, CAISO needs one: CAISO/TH_NP15_GEN-APND")
    return Market(zone, market.maps, market.entsoe, market.nord_pool, place, market.clock, market.published_s)
