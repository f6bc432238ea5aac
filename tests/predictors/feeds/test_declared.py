"""The operator's own file and rule."""

import pytest

from offpeak.predictors.feeds.declared import FileSource, TariffSource
from offpeak.predictors.feeds.port import FeedCondition, Window
from offpeak.prices.layout import parse_layout
from offpeak.prices.tariff import parse_tariff

pytestmark = pytest.mark.quick

HOUR = 3600


def test_the_part_of_a_file_that_was_requested(tmp_path):
    file = tmp_path / "prices_eur_per_mwh.csv"
    file.write_text("utc,price\n1970-01-01T00:00Z,10\n1970-01-01T01:00Z,20\n1970-01-01T02:00Z,30\n")
    source = FileSource(file, parse_layout(""))
    series = source.fetch(Window(HOUR, 2 * HOUR))
    assert (series.start_s.tolist(), series.value.tolist(), series.unit) == ([HOUR], [20.0], "EUR/MWh")
    assert source.fetch(Window(9 * HOUR, 10 * HOUR)).condition is FeedCondition.NOT_YET_PUBLISHED


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "prices_eur_per_mwh.csv"
    found = FileSource(file, parse_layout("")).fetch(Window(0, HOUR))
    assert found.condition is FeedCondition.UNREADABLE_FILE
    assert str(file) in found.detail
    file.write_text("utc,price\n1970-01-01T00:00Z,ten\n")
    assert FileSource(file, parse_layout("")).fetch(Window(0, HOUR)).condition is FeedCondition.UNREADABLE_FILE


def test_a_rule_is_known_for_ever():
    series = TariffSource(parse_tariff("on=90EUR/MWh,off=30EUR/MWh")).fetch(Window(0, 24 * HOUR))
    assert (series.value.tolist(), series.end_s) == ([30, 90, 30], 24 * HOUR)
