"""ENTSO-E through the real entsoe-py, against a server of this machine."""

import logging
import sys
from pathlib import Path

import pytest

from offpeak.installation import install_hint
from predictors.feeds.entso_e import EntsoE
from predictors.feeds.port import FeedCondition, Window
from predictors.feeds.web import KeyLocation

WINDOW = Window(1_730_674_800, 1_730_674_800 + 48 * 3600)
XML = (Path(__file__).parent / "answers" / "entso_e.xml").read_text(encoding="utf-8")
AS_XML = {"Content-Type": "application/xml"}
NOTHING = "<Acknowledgement_MarketDocument><Reason><text>No matching data found</text></Reason></...>"

# What entsoe-py, its HTML parser and its pandas warn of is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def source(player, key_file, monkeypatch) -> EntsoE:
    pytest.importorskip("entsoe")
    monkeypatch.delenv("ENTSOE_API_KEY", raising=False)
    return EntsoE("DE_LU", "EUR", KeyLocation("ENTSOE_API_KEY", key_file), player.url, timeout_s=5.0)


@pytest.fixture
def plays(player, reply):
    """Plays a document, and nothing where entsoe-py asks for more of it."""

    def of(text: str) -> None:
        player.reply = lambda _, query: reply((NOTHING if int(query["offset"]) else text).encode(), headers=AS_XML)

    return of


def test_a_good_answer(player, plays, answer, source):
    plays(XML)
    series = source.fetch(WINDOW)
    assert (int(series.start_s[0]), series.end_s, series.unit) == (*WINDOW, "EUR/MWh")
    assert series.value.tolist() == answer("energy_charts")["price"]
    assert player.requests[0][1]["securityToken"] == "the-secret-key"


@pytest.mark.parametrize(
    ("tag", "other", "condition"),
    [
        ("<currency_Unit.name>EUR", "<currency_Unit.name>PLN", FeedCondition.WRONG_CURRENCY),
        ("<contract_MarketAgreement.type>A01", "<contract_MarketAgreement.type>A07", FeedCondition.WRONG_AUCTION),
        ("10Y1001A1001A82H</out_Domain", "10YFR-RTE------C</out_Domain", FeedCondition.WRONG_ZONE),
    ],
)
def test_tags_of_another_answer(plays, source, tag, other, condition):
    plays(XML.replace(tag, other))
    assert source.fetch(WINDOW).condition is condition


@pytest.mark.slow("waits for the end of a time-out")
def test_faults(player, reply, faults, source):
    faults["not yet published"] = reply(NOTHING.encode(), headers=AS_XML)
    for condition, fault in faults.items():
        player.plays(fault)
        found = source.fetch(WINDOW)
        assert str(found.condition) == condition
        assert "the-secret-key" not in repr(found)


def test_unreachable_entso_e_server_is_reported(closed_url, key_file):
    pytest.importorskip("entsoe")
    place = KeyLocation("ENTSOE_API_KEY", key_file)
    assert EntsoE("DE_LU", "EUR", place, closed_url).fetch(WINDOW).condition is FeedCondition.REFUSED


def test_the_key_is_in_no_log(player, plays, source, caplog):
    plays(XML)
    with caplog.at_level(logging.DEBUG):
        source.fetch(WINDOW)
    assert player.requests
    assert "the-secret-key" not in caplog.text
    assert "the-secret-key" not in repr(source)


def test_without_the_library_a_key_or_the_zone(source, monkeypatch):
    assert EntsoE("DE_LU", "EUR", KeyLocation("NOT_SET")).fetch(WINDOW).condition is FeedCondition.NO_KEY
    assert EntsoE("", "EUR", KeyLocation("NOT_SET")).fetch(WINDOW).condition is FeedCondition.WRONG_ZONE
    monkeypatch.setitem(sys.modules, "entsoe", None)
    missing = source.fetch(WINDOW)
    assert (missing.condition, missing.hint) == (FeedCondition.NOT_INSTALLED, install_hint("feeds-entsoe"))
