"""The electricity series that a broker knows: published hours of the current local day, and forecasts of later ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.step_series import Series
from predictors.prices.models import Member
from predictors.prices.past import Past

AHEAD_DAYS = 4
LIKE_DAYS = 3
FAR_S = 2**33
"""Beyond any log [Unix s]."""


@dataclass(frozen=True)
class Steady:
    """Electricity that never changes: prices per MWh and CO2 in g/kWh, one of each a site."""

    price_per_mwh: Sequence[float]
    co2_g_per_kwh: Sequence[float]
    currency: str = "EUR"

    def price(self, _now_s: int) -> tuple[Series, ...]:
        """Return a series of one value a site."""
        return self._prices

    def carbon(self, _now_s: int) -> tuple[Series, ...]:
        """Return a series of one value a site."""
        return self._carbons

    @cached_property
    def _prices(self) -> tuple[Series, ...]:
        return tuple(_steady(value, f"{self.currency}/MWh") for value in self.price_per_mwh)

    @cached_property
    def _carbons(self) -> tuple[Series, ...]:
        return tuple(_steady(value, "g/kWh") for value in self.co2_g_per_kwh)


def _steady(value: float, unit: str) -> Series:
    return Series(np.array([0]), FAR_S, np.array([value]), unit, "steady")


@dataclass(frozen=True, eq=False)
class DayAhead:
    """Hourly prices of one market, known to the end of the local day; four more days are forecast.

    `price` float64[days, 24] begins at midnight `start_s` [Unix s] on a clock that does not change, `coming`
    float64[days, 4, 24] are the forecasts of each day for the following ones.
    """

    price: Float64
    coming: Float64
    start_s: int
    unit: str

    def at(self, now_s: int) -> Series:
        """Return the series known at that instant, from the last midnight on."""
        return self._days[min(max((now_s - self.start_s) // DAY_S, 0), len(self.price) - 1)]

    @cached_property
    def _days(self) -> tuple[Series, ...]:
        return tuple(self._known_on(day) for day in range(len(self.price)))

    def _known_on(self, day: int) -> Series:
        value = np.append(self.price[day], self.coming[day])
        start_s = self.start_s + day * DAY_S + HOUR_S * np.arange(len(value))
        return Series(start_s, int(start_s[-1]) + HOUR_S, value, self.unit, "published and forecast")


def forecast_days(price: Float64, member: Member, days: range) -> Float64:
    """Return what `member` says on each of `days` of the four days after it, float64[days of price, 4, 24].

    The member knows all days up to that one. For other days, and after three equal days, the same hours are repeated.
    """
    coming = np.repeat(price[:, None], AHEAD_DAYS, axis=1)
    for day in days:
        if np.ptp(price[max(day - LIKE_DAYS + 1, 0) : day + 1]) > 0:
            coming[day] = _after(price[: day + 1], member)
    return coming


def _after(price: Float64, member: Member) -> Float64:
    days = len(price)
    past = Past(0, price, np.ones(days, np.bool_), np.zeros(days + AHEAD_DAYS + 1, np.int64))
    model = member.fit(past)
    for _ in range(AHEAD_DAYS):
        past = past.followed_by(model(past))
    return past.price[days:]


_NO_CARBON = _steady(0.0, "g/kWh")


@dataclass(frozen=True, eq=False)
class Markets:
    """The electricity of sites, each in a market by the day; CO2 is not counted."""

    market: tuple[DayAhead, ...]

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return the known prices of each site."""
        return tuple(each.at(now_s) for each in self.market)

    def carbon(self, _now_s: int) -> tuple[Series, ...]:
        """Return zeros."""
        return (_NO_CARBON,) * len(self.market)
