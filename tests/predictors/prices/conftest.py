"""A market that these tests forecast: its prices have a daily and a weekly course, noise, and now and then a spike."""

from collections.abc import Callable

import numpy as np
import pytest

from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import Past, PriceHistory, fill_days, split_days

MONDAY_S = 1_609_714_800  # 2021-01-04 00:00 in Brussels
BRUSSELS = parse_zone("Europe/Brussels")


def prices_of(days: int, *, seed: int = 1, noise: float = 3.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    hour = np.arange(24 * days)
    daily = 12 * np.sin(2 * np.pi * (hour - 8) / 24) + 6 * np.sin(4 * np.pi * (hour - 6) / 24)
    weekend = np.where(hour // 24 % 7 >= 5, -10.0, 0.0)
    level = np.repeat(np.cumsum(random.normal(0, noise / 2, days)), 24)
    spikes = np.where(random.random(len(hour)) < 0.002, 150.0, 0.0)
    return 45 + daily + weekend + level + random.normal(0, noise, len(hour)) + spikes


@pytest.fixture(scope="session")
def history() -> Callable[..., PriceHistory]:
    """Makes the hourly prices of so many days from a Monday in January on."""
    return lambda days, **how: PriceHistory(MONDAY_S, 3600, prices_of(days, **how))


@pytest.fixture(scope="session")
def past(history: Callable[..., PriceHistory]) -> Callable[..., Past]:
    """Makes the past of so many days."""
    return lambda days, **how: fill_days(split_days(history(days, **how), BRUSSELS), ahead=8, holidays="")
