"""A feed is checked by asking it for this hour; a source that answers with an error is a doubtful finding."""

from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.power.check.findings import CheckVerdict, check_feeds
from offpeak.predictors.feeds.registry import input_feeds, price_feed
from offpeak.settings.replay import FeedSettings, PriceSettings

NOW_S = 1_700_000_000


def _prices(folder: Path, content: str) -> PriceSettings:
    file = folder / "prices_eur_per_mwh.csv"
    file.write_text(content)
    return replace(PriceSettings(), file=file)


def test_finding_of_a_known_stale_or_unknown_feed(tmp_path: Path) -> None:
    tariff = price_feed(FeedSettings(prices=("tariff",), cache=tmp_path / "a"), PriceSettings())
    known = _prices(tmp_path, "utc,price\n2023-11-14T22:00Z,50\n2023-11-14T23:00Z,51\n")
    file = price_feed(FeedSettings(prices=("file",), cache=tmp_path / "b"), known)
    found = check_feeds([("prices", tariff), ("file", file), ("carbon", None)], now_s=NOW_S)
    assert found[0].verdict is CheckVerdict.GOOD
    assert found[0].message.endswith(": published")
    assert (found[1].subject, found[1].verdict) == ("file", CheckVerdict.GOOD)
    assert len(found) == 2
    (later,) = check_feeds([("file", file)], now_s=NOW_S + 40 * 86400)
    assert later.verdict is CheckVerdict.BAD
    assert later.message
    assert later.hint


def test_each_input_of_the_price_forecast_has_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENTSOE_API_KEY", raising=False)
    names = ("entso-e-load", "entso-e-wind-solar")
    found = check_feeds(input_feeds(FeedSettings(inputs=names, zone="DE-LU", cache=tmp_path)), now_s=NOW_S)
    assert tuple(finding.subject for finding in found) == names
    assert {finding.verdict for finding in found} == {CheckVerdict.BAD}
    assert found[0].message.startswith("entso-e-load: no key: ENTSOE_API_KEY is not set")
