"""The popularity of short and long estimates: counted in logs, drawn by the model's rule."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.workloads.tsafrir import HEAD, RANKS_BY_TIME, draw_ranks


@given(st.integers(0, 10_000))
def test_every_rank_is_given_once_the_first_to_the_longest_none_earlier_than_in_any_log(seed: int) -> None:
    ranks = draw_ranks(np.random.default_rng(seed)).tolist()
    assert sorted(ranks) == list(range(1, HEAD + 1))
    assert ranks[0] == 1
    first = {rank: min(log.index(rank) for log in RANKS_BY_TIME.values()) for rank in ranks}
    assert all(time >= first[rank] for time, rank in enumerate(ranks))


@pytest.mark.parametrize(
    ("log", "longest_h"), [("SDSC-SP2", None), ("CTC-SP2", None), ("KTH-SP2 up to 4 h", 4)], ids=["SDSC", "CTC", "KTH"]
)
def test_the_table_is_what_the_logs_say(shared: Path, log: str, longest_h: int | None) -> None:
    """The fourth column was counted in a version of SDSC-BLUE that is not at hand."""
    jobs = read_swf(shared / "data" / "traces" / f"{log.split()[0]}.swf.gz").jobs
    within = jobs.estimate_s if longest_h is None else jobs.estimate_s[jobs.estimate_s <= longest_h * 3600]
    values_s, number = np.unique(within, return_counts=True)
    top_s = values_s[np.argsort(-number, kind="stable")[:HEAD]].tolist()
    by_time = sorted(top_s)
    assert tuple(top_s.index(value_s) + 1 for value_s in (by_time[-1], *by_time[:-1])) == RANKS_BY_TIME[log]
