"""Studies by name."""

import pytest

from offpeak.errors import BadInput
from studies.dynamic_pricing.study import dynamic_pricing
from studies.registry import study_named


def test_by_name() -> None:
    assert study_named("dynamic-pricing") is dynamic_pricing


def test_an_unknown_name() -> None:
    with pytest.raises(BadInput, match="unknown study 'dynamic-prising'") as caught:
        study_named("dynamic-prising")
    assert caught.value.hint == "did you mean dynamic-pricing?"
