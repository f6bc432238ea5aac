"""The agent uses the prices of the week before while its forecast errs more, says so once, and goes back."""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.step_series import Series
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, clip_series, price_quantity
from offpeak.predictors.price_forecast import PriceSource
from offpeak.prices.peak import parse_peak_rule
from offpeak.prices.tariff import parse_tariff
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import PriceLoop, PriceSection
from offpeak.settings.ledger import LedgerSettings

BRUSSELS = ZoneInfo("Europe/Brussels")
FIRST_S = 1_727_560_800
"""2024-09-29 00:00 in Brussels."""
PROBLEM = "worse than the prices of the week before"


@dataclass
class SpikyMarket:
    """Thirty good days, a week with many prices of 4,000, then good days again; known until `until_s`."""

    until_s: int = 0
    name: str = "market"
    own: bool = True

    def fetch(self, window: Window) -> SourceAnswer:
        random = np.random.default_rng(5)
        start_s = np.arange(FIRST_S, FIRST_S + 100 * DAY_S, HOUR_S, dtype=np.int64)
        day = (start_s - FIRST_S) // DAY_S
        price = 60 + 20 * np.sin(start_s // HOUR_S % 24 / 4) + np.cumsum(random.normal(0, 6, 100))[day]
        price[(day >= 30) & (day < 37) & (random.random(len(start_s)) < 0.1)] = 4000.0
        known = start_s < self.until_s
        series = Series(start_s[known], self.until_s, price[known], "EUR/MWh", self.name)
        return clip_series(series, window) or FeedProblem(FeedCondition.NOT_YET_PUBLISHED, self.name, "nothing yet")


def test_a_feed_that_becomes_nonsense_and_recovers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    market, problem_log = SpikyMarket(), ProblemLog()
    feed = Feed((market,), tmp_path / "cache" / "prices.csv", price_quantity("EUR"), BRUSSELS)
    source = PriceSource(feed, parse_tariff("on=90EUR/MWh,off=30EUR/MWh"), tmp_path / "cache" / "model.npz", "BE")
    section = PriceSection(source, None, parse_peak_rule("day-mean", zone=BRUSSELS), BRUSSELS, 24 * HOUR_S)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    loop = PriceLoop(lambda: section, ledger, problem_log, lambda: float(market.until_s))
    reported = {}
    with caplog.at_level(logging.INFO, "offpeak"):
        for day in range(29, 70, 2):
            market.until_s = FIRST_S + day * DAY_S
            asyncio.run(loop.round())
            assert loop.curve is not None
            (forecast,) = loop.forecasts
            reported[day] = PROBLEM in "".join(problem_log.problems)
            at = loop.curve.at(market.until_s)
            if reported[day]:
                week_ago = market.fetch(Window(market.until_s - 7 * DAY_S, market.until_s - 7 * DAY_S + HOUR_S))
                assert isinstance(week_ago, Series)
                assert loop.curve.series.value[at] == pytest.approx(week_ago.value[0])
                assert "week before" in loop.curve.basis[at]
                assert loop.curve.decisions is loop.curve
            else:
                assert loop.curve.basis[at].startswith("forecast from")
            assert forecast.mae is not None
            assert (forecast.used == forecast.naive) == reported[day]
    ledger.close()
    assert not reported[29]
    assert not reported[69]
    assert any(reported.values())
    assert [record.levelname for record in caplog.records if PROBLEM in record.getMessage()] == ["WARNING", "INFO"]
