"""Bidding zones and markets: their names at each source, and their clock."""

from dataclasses import dataclass, replace
from datetime import tzinfo

from offpeak.errors import BadSetting
from offpeak.model.zones import machine_zone, parse_zone
from offpeak.text import did_you_mean


@dataclass(frozen=True)
class Market:
    """A zone: its names at the sources, "" if a source lacks it; `place` is an American market's hub or load zone."""

    zone: str
    maps: str
    entsoe: str = ""
    nord_pool: str = ""
    place: str = ""
    # The days of the coupled European auction are those of central Europe, in Helsinki and Lisbon too.
    clock: str = "Europe/Brussels"

    @property
    def country(self) -> str:
        """The country whose public holidays count as off-peak days."""
        return self.maps[:2]


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
    Market("GB", "GB", "GB", clock="Europe/London"),
    Market("CAISO", "US-CAL-CISO", clock="America/Los_Angeles"),
    Market("ERCOT", "US-TEX-ERCO", clock="America/Chicago"),
    Market("ISONE", "US-NE-ISNE", clock="America/New_York"),
    # Its days are those of Eastern Standard Time, in summer too.
    Market("MISO", "US-MIDW-MISO", clock="-05:00"),
    Market("NYISO", "US-NY-NYIS", clock="America/New_York"),
    Market("PJM", "US-MIDA-PJM", clock="America/New_York"),
)
BY_ZONE = {market.zone: market for market in MARKETS}


def find_market(text: str) -> Market:
    """Return the market of "DE-LU", or of "CAISO/TH_NP15_GEN-APND" with the place inside it, else raise BadSetting."""
    zone, _, place = text.partition("/")
    if zone not in BY_ZONE:
        raise BadSetting(f"feeds.zone: {text!r} is not a known zone", hint=did_you_mean(zone, BY_ZONE))
    market = BY_ZONE[zone]
    if bool(place) == bool(market.entsoe):
        raise BadSetting(f"feeds.zone: {text!r}", hint="DE-LU has no place, CAISO needs one: CAISO/TH_NP15_GEN-APND")
    return replace(market, place=place)


def site_zone(market: str | None) -> tzinfo:
    """Return the time zone of a site's days and months: that of its market, else the machine's. Raises BadSetting."""
    return parse_zone(find_market(market).clock) if market else machine_zone()
