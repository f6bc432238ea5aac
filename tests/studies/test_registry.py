"""Studies by name."""

import pytest

from offpeak.errors import BadInput
from studies.day_ahead.nordugrid_study import nordugrid
from studies.day_ahead.study import day_ahead
from studies.dynamic_pricing.study import dynamic_pricing
from studies.energy_carbon.federation_study import federation
from studies.energy_carbon.single_site import single_site
from studies.online_simulation.study import online_simulation
from studies.price_capacity.study import price_capacity
from studies.registry import study_named
from studies.sleeping.study import sleeping


def test_by_name() -> None:
    assert study_named("dynamic-pricing") is dynamic_pricing
    assert study_named("online-simulation") is online_simulation
    assert study_named("price-capacity") is price_capacity
    assert study_named("sleeping") is sleeping


def test_an_unknown_name() -> None:
    with pytest.raises(BadInput, match="unknown study 'dynamic-prising'") as caught:
        study_named("dynamic-prising")
    assert caught.value.hint == "did you mean dynamic-pricing?"


def test_a_part_by_name() -> None:
    assert study_named("energy-carbon", "single-site") is single_site
    assert study_named("energy-carbon", "federation") is federation
    assert study_named("day-ahead", "xsede") is day_ahead
    assert study_named("day-ahead", "nordugrid") is nordugrid


@pytest.mark.parametrize(
    ("name", "part", "message", "hint"),
    [
        (
            "energy-carbon",
            None,
            "the study energy-carbon is run a part at a time",
            "add --part single-site or --part federation",
        ),
        ("energy-carbon", "single", "the study energy-carbon has no part 'single'", "did you mean single-site?"),
        ("dynamic-pricing", "single-site", "the study dynamic-pricing has no parts", "leave --part out"),
        ("energy-carbons", None, "unknown study 'energy-carbons'", "did you mean energy-carbon?"),
    ],
)
def test_a_part_that_is_missing_or_too_many(name: str, part: str | None, message: str, hint: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        study_named(name, part)
    assert caught.value.hint == hint
