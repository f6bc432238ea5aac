"""The energy source coefficients of the paper's three clusters, and shares that cannot be."""

import pytest

from offpeak.errors import BadInput
from offpeak.plugin.federation.sites import Site, esc_g_per_kwh

pytestmark = pytest.mark.quick

# Majanen et al., Table III; the third CUE is printed 0.166792, which is not the product of its factors.
TABLE_3 = [
    ({"coal": 50, "hydro": 20, "nuclear": 30}, 1.5, 459.83, 689.745),
    ({"coal": 80, "oil": 20}, 1.8, 850.0, 1530.0),
    ({"oil": 20, "hydro": 40, "nuclear": 40}, 1.3, 128.44, 166.972),
]


@pytest.mark.parametrize(("mix", "pue", "esc", "cue"), TABLE_3)
def test_the_clusters_of_table_3(mix: dict[str, float], pue: float, esc: float, cue: float) -> None:
    found = esc_g_per_kwh(mix)
    assert found == pytest.approx(esc)
    assert Site("c", 30, 100.0, pue=pue, esc_g_per_kwh=found).cue_g_per_kwh == pytest.approx(cue)


def test_a_live_series_leaves_the_cue_open() -> None:
    assert Site("c", 30, 100.0, carbon_zone="DE").cue_g_per_kwh is None


@pytest.mark.parametrize(
    ("mix", "message", "hint"),
    [
        ({"coal": 50, "hydro": 40}, "the shares add up to 90 %", "other"),
        ({"coal": 120, "hydro": -20}, "hydro: -20 % is not a share", "zero or more"),
        ({"cole": 100}, "cole: is not a source of energy", "did you mean coal?"),
        ({"coal": float("nan")}, "coal: nan % is not a share", "zero or more"),
    ],
)
def test_shares_that_cannot_be(mix: dict[str, float], message: str, hint: str) -> None:
    with pytest.raises(BadInput, match=message) as problem:
        esc_g_per_kwh(mix)
    assert hint in problem.value.hint
