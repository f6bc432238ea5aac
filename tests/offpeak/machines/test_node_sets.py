"""Node sets are what ClusterShell makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand, expand_in_order, fold

NAMES = st.builds("{}{:0{}d}".format, st.sampled_from(["n", "node-", "gpu"]), st.integers(0, 999), st.just(3))


def test_examples() -> None:
    assert expand("n[001-003],login") == ("login", "n001", "n002", "n003")
    assert expand("n[1-4]!n2") == ("n1", "n3", "n4")
    assert fold(["n3", "n1", "n2"]) == "n[1-3]"


def test_the_written_order_is_kept() -> None:
    assert expand_in_order("login,compute1") == ("login", "compute1")
    assert expand_in_order("b[3-4],a[01,03],b1") == ("b3", "b4", "a01", "a03", "b1")
    assert expand_in_order("10.1.0.9,10.1.0.[10-11]") == ("10.1.0.9", "10.1.0.10", "10.1.0.11")


@pytest.mark.parametrize("text", ["n[3,1]", "n[5,1-2]", "n[1-4]!n2", "@rack1", "n[1-4]&n2", ""])
def test_what_has_no_order_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        expand_in_order(text)


@pytest.mark.parametrize("text", ["", "n[1-", "n[b-a]", "n[3-1]", "n1,,"])
def test_what_is_no_node_set_is_said(text: str) -> None:
    with pytest.raises(BadInput):
        expand(text)


@given(st.sets(NAMES, min_size=1, max_size=30))
def test_fold_is_the_way_back(names: set[str]) -> None:
    assert set(expand(fold(names))) == names
