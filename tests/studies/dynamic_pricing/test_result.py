"""Bills made of what a replay used."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from offpeak_studies.dynamic_pricing.run import (
    PricedUse,
    PricingBill,
    PricingPolicyResult,
    PricingResult,
    ceiling_pct,
    cost,
    saved_pct,
)

READ = TypeAdapter(PricingResult).validate_python
AMOUNT = st.integers(0, 10**9).map(float)
USED = st.builds(PricedUse, AMOUNT, AMOUNT, AMOUNT, AMOUNT)
BILL = st.builds(PricingBill, st.integers(1, 10).map(float), st.integers(0, 500).map(float))


def result_of(baseline: PricedUse, other: PricedUse, perfect: PricedUse) -> PricingResult:
    policies = tuple(
        PricingPolicyResult(name, 10.0, 0.5, used, used, used) for name, used in (("easy", baseline), ("greedy", other))
    )
    return PricingResult(policies, policies[:1] * 2, perfect)


@given(USED, BILL)
def test_a_cost_is_linear_in_the_price_ratio(used: PricedUse, bill: PricingBill) -> None:
    low, middle, high = (cost(used, replace(bill, price_ratio=ratio)) for ratio in (1.0, 2.0, 3.0))
    assert middle - low == pytest.approx(high - middle, rel=1e-6, abs=1e-3)


@given(USED, USED, USED, BILL)
def test_a_result_is_read_as_it_was_written(
    baseline: PricedUse, other: PricedUse, perfect: PricedUse, bill: PricingBill
) -> None:
    result = result_of(baseline, other, perfect)
    again = READ(json.loads(json.dumps(asdict(result))))
    assert again == result
    assert saved_pct(again, 0, bill) == 0


def test_savings() -> None:
    result = result_of(PricedUse(100, 100, 0, 0), PricedUse(50, 150, 0, 0), PricedUse(25, 175, 0, 0))
    assert saved_pct(result, 1, PricingBill()) == pytest.approx(25)
    assert ceiling_pct(result, PricingBill()) == pytest.approx(37.5)


def test_invalid_result_is_refused() -> None:
    for kept in [{}, {"policies": []}, {"policies": [{"policy": "easy"}], "perfect": {}}]:
        with pytest.raises(ValidationError):
            READ(kept)
