"""Results, written and read."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from studies.online_simulation.run import OnlineResult, Weekly

READ = TypeAdapter(OnlineResult).validate_python
SHARE = st.floats(0, 1)
BY_WEEK = st.lists(st.none() | st.floats(0, 1000), max_size=5).map(tuple)
WEEKLY = st.builds(Weekly, BY_WEEK, BY_WEEK, BY_WEEK, BY_WEEK)


@given(st.builds(OnlineResult, st.floats(1, 1e6), SHARE, SHARE, SHARE, SHARE, SHARE, WEEKLY))
def test_a_result_is_read_as_it_was_written(result: OnlineResult) -> None:
    assert READ(json.loads(json.dumps(asdict(result)))) == result


@pytest.mark.parametrize("kept", [{}, {"weekly": {}}, {"weekly": {"slowdown": [1.0]}, "slowdown": 1.0}])
def test_what_is_no_result_is_refused(kept: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        READ(kept)
