"""Two days of the benchmark of shadow mode: its promise, and what the same days in active mode really save."""

from concurrent.futures import ProcessPoolExecutor

import pytest

from benchmarks.shadow import play

DAYS = 2


@pytest.mark.thorough
def test_shadow_promises_what_active_mode_saves() -> None:
    with ProcessPoolExecutor(2) as pool:
        shadow, active = pool.map(play, ("shadow", "active"), (DAYS, DAYS))
    truth = shadow.cost - active.cost
    order, sleep = (shadow.booked(lever=lever, is_shadow=True) for lever in ("order", "sleep"))
    assert truth > 0.1 * shadow.cost
    assert order[0] + sleep[0] == pytest.approx(truth, rel=0.1)
    assert order[1] + sleep[1] <= order[0] + sleep[0] <= order[2] + sleep[2]
    assert not [row for row in shadow.rows if not row.is_shadow]
    assert not [row for row in active.rows if row.is_shadow]
