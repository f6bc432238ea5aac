"""The mapping from numbers to the other names of jobs behaves as a dict."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.slurm.read import job_names

pytestmark = pytest.mark.quick


@given(st.lists(st.tuples(st.integers(0, 20), st.text("ab_", max_size=3))))
def test_it_is_what_a_dict_would_be(pairs: list[tuple[int, str]]) -> None:
    number = np.array([pair[0] for pair in pairs], np.int64)
    names = job_names(number, pa.array([pair[1] for pair in pairs], pa.string()))
    assert names == dict(pairs)
    assert [names.get(number) for number in range(22)] == [dict(pairs).get(number) for number in range(22)]


def test_a_number_without_another_name_is_not_in_it() -> None:
    with pytest.raises(KeyError):
        job_names(np.array([1, 3]), pa.array(["1_1", "1_2"]))[2]
