"""The window holds the last rows and no others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.waits.similar_jobs import LatestRows


@given(st.integers(1, 6), st.lists(st.integers(0, 4), max_size=15))
def test_it_holds_the_last_rows_in_their_order(most, lengths):
    window, added = LatestRows(most, 2), []
    for length in lengths:
        wait_s = len(added) + np.arange(length)
        window.add(np.stack([wait_s, -wait_s], axis=1).astype(float), wait_s)
        added += wait_s.tolist()
    assert window.wait_s.tolist() == added[-most:]
    assert window.rows.tolist() == [[wait_s, -wait_s] for wait_s in added[-most:]]
    assert len(window) == min(most, len(added))
