"""A synthetic year of hourly day-ahead prices with a realistic shape, for the bundled sample, and its file.

The prices are not fitted to any market. They have two peaks a day, cheaper weekends, an expensive winter, sun that
lowers midday prices in spring and summer (some below zero), slow weather, and a few spikes. All amplitudes are shares
of the year's mean.
"""

import gzip
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import replacing
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import to_local_s, weekday
from offpeak.model.step_series import Series

# Per cent of the mean by which each hour of a working day is above it, 0:00 to 23:00, without sun.
WORKDAY = (-24, -28, -30, -30, -27, -18, 0, 18, 26, 22, 16, 12, 9, 7, 8, 10, 14, 22, 30, 32, 24, 10, -2, -14)
WEEKEND = (-26, -31, -34, -36, -36, -33, -28, -20, -12, -8, -7, -8, -10, -13, -15, -13, -6, 6, 16, 18, 10, 0, -8, -18)
WINTER = 0.15
SUN = 1.2
WEATHER = 0.32
# The share of the weather's effect that is left an hour later: half of it after about a day.
WEATHER_KEPT = 0.97
SPIKES_A_YEAR = 25


def synthetic_prices(year: int, *, seed: int, zone: str = "Europe/Berlin", mean_per_mwh: float = 80.0) -> Series:
    """Return the hourly prices [EUR/MWh] of one local calendar year, in whole cents; the same seed, the same year."""
    begin_s, end_s = (int(datetime(y, 1, 1, tzinfo=ZoneInfo(zone)).timestamp()) for y in (year, year + 1))
    start_s = np.arange(begin_s, end_s, HOUR_S)
    local_s = to_local_s(start_s, ZoneInfo(zone))
    random = np.random.default_rng(seed)
    share = _habit(local_s) + _season(local_s) - _sun(local_s, random) + _weather(len(start_s), random)
    share += _spikes(local_s, random)
    price = mean_per_mwh * (1 + share - share.mean())
    return Series(start_s, end_s, np.round(price, 2), "EUR/MWh", f"synthetic prices {year}, seed {seed}")


def _habit(local_s: Int64) -> Float64:
    day, clock_s = np.divmod(local_s, DAY_S)
    by_hour = np.array([WORKDAY, WEEKEND]) / 100
    profile: Float64 = by_hour[(weekday(day) >= 5).astype(np.int64), clock_s // HOUR_S]
    return profile


def _season(local_s: Int64) -> Float64:
    """Return the seasonal swing: highest in mid-January, lowest in mid-July."""
    season: Float64 = WINTER * np.cos(_year_angle(local_s))
    return season


def _sun(local_s: Int64, random: np.random.Generator) -> Float64:
    """Return how far the sun lowers the price of each hour, by season, hour and clouds."""
    day, clock_s = np.divmod(local_s, DAY_S)
    clear = random.beta(2.0, 2.0, size=int(day[-1] - day[0]) + 1)[day - day[0]]
    height = np.clip(np.cos((clock_s / HOUR_S - 13) / 24 * 2 * np.pi), 0, None) ** 1.5
    strength = 0.5 - 0.5 * np.cos(_year_angle(local_s) + np.pi / 12)
    sun: Float64 = SUN * clear * height * strength
    return sun


def _weather(hours: int, random: np.random.Generator) -> Float64:
    """Return autocorrelated noise (wind, outages, fuel) as an exponentially forgotten sum of hourly shocks."""
    memory = WEATHER_KEPT ** np.arange(240)
    shocks = random.normal(size=hours + len(memory) - 1)
    weather: Float64 = WEATHER * np.sqrt(1 - WEATHER_KEPT**2) * np.convolve(shocks, memory, mode="valid")
    return weather


def _spikes(local_s: Int64, random: np.random.Generator) -> Float64:
    """Return the price spikes: rare, in the morning or in the evening, a few times the mean."""
    clock_h = local_s % DAY_S // HOUR_S
    scarce = np.flatnonzero(np.isin(clock_h, (7, 8, 17, 18, 19)))
    hit = random.random(len(scarce)) < SPIKES_A_YEAR / len(scarce)
    spikes = np.zeros(len(local_s))
    spikes[scarce[hit]] = random.lognormal(mean=0.3, sigma=0.5, size=int(hit.sum()))
    return spikes


def _year_angle(local_s: Int64) -> Float64:
    angle: Float64 = 2 * np.pi * (local_s / DAY_S / 365.2425 % 1 - 14 / 365)
    return angle


def write_series_csv(series: Series, path: Path) -> None:
    """Write `utc,price` (or `utc,carbon`) rows, nothing for an unknown value; gzipped if the name ends in .gz.

    The name must contain the unit (`..._eur_per_mwh.csv`). Raises BadInput otherwise, CannotWrite if the file cannot be
    written.
    """
    suffix = "_" + series.unit.lower().replace("/", "_per_")
    if suffix not in path.name:
        raise BadInput(f"{path}: the name does not tell the unit {series.unit}", hint=f"name it ...{suffix}.csv")
    whole_minutes = not np.any(series.start_s % 60)
    times = np.datetime_as_string(series.start_s.astype("datetime64[s]"), unit="m" if whole_minutes else "s")
    values = (repr(value) if known else "" for value, known in zip(series.value.tolist(), series.known, strict=True))
    rows = "".join(f"{time}Z,{value}\n" for time, value in zip(times, values, strict=True))
    content = f"utc,{'carbon' if series.unit == 'g/kWh' else 'price'}\n{rows}".encode()
    with replacing(path) as file:
        # No time stamp inside: the same series makes the same file.
        file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
