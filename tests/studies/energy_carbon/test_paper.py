"""The paper's tables agree with themselves, but for one cell."""

import pytest

from studies.energy_carbon.paper import TESTBEDS, MeasuredPair, MeasuredRun

ROWS = [
    pytest.param(row, id=f"{name}-{way}-{load}")
    for name, testbed in TESTBEDS.items()
    for way, rows in testbed.rows.items()
    for load, row in rows.items()
]
OFF_AT_50 = TESTBEDS["dune"].rows["off"][50]


def product_kj(run: MeasuredRun) -> float:
    return run.power_w * run.elapsed_s / 1000


@pytest.mark.parametrize("row", ROWS)
def test_energies_are_products_and_savings_their_ratios(row: MeasuredPair) -> None:
    assert row.default.energy_kj == pytest.approx(product_kj(row.default), rel=2e-3)
    assert row.saved_pct == pytest.approx(100 * (1 - row.aware.energy_kj / row.default.energy_kj), abs=0.1)
    if row != OFF_AT_50:
        assert row.aware.energy_kj == pytest.approx(product_kj(row.aware), rel=3e-3)
        assert row.saved_by_product_pct == pytest.approx(row.saved_pct, abs=0.1)


def test_the_cell_whose_energy_is_no_product() -> None:
    assert OFF_AT_50.aware.energy_kj == pytest.approx(product_kj(OFF_AT_50.aware), rel=0.03)
    assert OFF_AT_50.saved_by_product_pct == pytest.approx(46.5, abs=0.05)
