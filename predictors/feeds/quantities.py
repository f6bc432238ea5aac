"""What a feed delivers: its unit, the range that it can lie in, and whether a published value is final."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Quantity:
    """`low` and `high` are in `unit`. A `final` value never changes once it is published, as an auction's price."""

    unit: str
    low: float
    high: float
    final: bool


CARBON = Quantity("g/kWh", 0.0, 2000.0, final=False)
OUTSIDE = Quantity("degC", -70.0, 60.0, final=False)

# Wide enough for what exchanges allow: the European day-ahead limits are -500 and 4000 EUR/MWh and may be raised by
# steps of 1000; ERCOT's cap was 9000 USD/MWh until 2021.
PRICE_LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "EUR": (-600.0, 6000.0),
        "CHF": (-600.0, 6000.0),
        "GBP": (-600.0, 6000.0),
        "USD": (-2000.0, 9500.0),
        "DKK": (-5000.0, 45_000.0),
        "NOK": (-8000.0, 75_000.0),
        "SEK": (-8000.0, 75_000.0),
        "PLN": (-3000.0, 27_000.0),
    }
)
ANY_PRICE = (-1e5, 1e6)


def price_in(currency: str) -> Quantity:
    """Return the quantity of an auction's price."""
    low, high = PRICE_LIMITS.get(currency, ANY_PRICE)
    return Quantity(f"{currency}/MWh", low, high, final=True)
