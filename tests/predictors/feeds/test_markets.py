"""Zones and markets by their names."""

import pytest

from offpeak.errors import BadSetting
from offpeak.model.zones import parse_zone
from offpeak.predictors.feeds.markets import BY_ZONE, MARKETS, find_market


def test_names_are_unique_and_clocks_exist():
    assert len(BY_ZONE) == len(MARKETS)
    for market in MARKETS:
        parse_zone(market.clock)


def test_every_zone_is_known_to_entsoe():
    mappings = pytest.importorskip("entsoe.mappings")
    for market in MARKETS:
        if market.entsoe:
            assert mappings.lookup_area(market.entsoe)


def test_a_zone_and_a_place():
    assert (find_market("DE-LU").nord_pool, find_market("SE4").maps) == ("GER", "SE-SE4")
    assert find_market("CAISO/TH_NP15_GEN-APND").place == "TH_NP15_GEN-APND"


@pytest.mark.parametrize("text", ["DE_LU", "", "CAISO", "CAISO/", "DE-LU/Berlin", "/x"])
def test_unknown_bidding_zone_is_refused(text):
    with pytest.raises(BadSetting, match=r"feeds\.zone") as problem:
        find_market(text)
    assert problem.value.hint
