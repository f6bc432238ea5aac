"""Studies by name."""

import pytest

from offpeak.errors import BadInput
from offpeak_studies.day_ahead.nordugrid_study import nordugrid
from offpeak_studies.day_ahead.study import day_ahead
from offpeak_studies.dynamic_pricing.study import dynamic_pricing
from offpeak_studies.energy_carbon.federation_study import federation
from offpeak_studies.energy_carbon.single_site import single_site
from offpeak_studies.online_simulation.study import online_simulation
from offpeak_studies.price_capacity.study import price_capacity
from offpeak_studies.registry import study_named
from offpeak_studies.sleeping.study import sleeping

pytestmark = pytest.mark.quick


def test_by_name() -> None:
    assert study_named("dynamic-pricing") is dynamic_pricing
    assert study_named("online-simulation") is online_simulation
    assert study_named("price-capacity") is price_capacity
    assert study_named("sleeping") is sleeping
    assert study_named("energy-carbon", "single-site") is single_site
    assert study_named("energy-carbon", "federation") is federation
    assert study_named("day-ahead", "xsede") is day_ahead
    assert study_named("day-ahead", "nordugrid") is nordugrid


def test_a_part_that_is_missing_or_too_many() -> None:
    for name, part, message, hint in [
        (
            "energy-carbon",
            None,
            "the study energy-carbon is run a part at a time",
            "add --part single-site or --part federation",
        ),
        ("energy-carbon", "single", "the study energy-carbon has no part 'single'", "did you mean single-site?"),
        ("dynamic-pricing", "single-site", "the study dynamic-pricing has no parts", "leave --part out"),
        ("dynamic-prising", None, "unknown study 'dynamic-prising'", "did you mean dynamic-pricing?"),
        ("energy-carbons", None, "unknown study 'energy-carbons'", "did you mean energy-carbon?"),
    ]:
        with pytest.raises(BadInput, match=message) as caught:
            study_named(name, part)
        assert caught.value.hint == hint
