"""Node sets are what ClusterShell makes of them."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.machines.node_sets import MOST_NODES, expand, expand_in_order, fold, fold_names, most_names

pytestmark = pytest.mark.quick

NAMES = st.builds("{}{:0{}d}".format, st.sampled_from(["n", "node-", "gpu"]), st.integers(0, 999), st.just(3))


def test_examples() -> None:
    assert expand("n[001-003],login") == ("login", "n001", "n002", "n003")
    assert expand("n[1-4]!n2") == ("n1", "n3", "n4")
    assert fold(["n3", "n1", "n2"]) == "n[1-3]"
    assert fold_names([]) == ""
    assert (
        fold_names(["p10", "p2", "batch", "@x", "p1", "p2", "a[b", "long jobs"]) == "batch,p[1-2,10],@x,a[b,long jobs"
    )


def test_the_written_order_is_kept() -> None:
    assert expand_in_order("login,compute1") == ("login", "compute1")
    assert expand_in_order("b[3-4],a[01,03],b1") == ("b3", "b4", "a01", "a03", "b1")
    assert expand_in_order("10.1.0.9,10.1.0.[10-11]") == ("10.1.0.9", "10.1.0.10", "10.1.0.11")


@pytest.mark.parametrize("text", ["n[3,1]", "n[5,1-2]", "n[1-4]!n2", "@rack1", "n[1-4]&n2", ""])
def test_node_set_without_an_order_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        expand_in_order(text)


@pytest.mark.parametrize("text", ["", "n[1-", "n[b-a]", "n[3-1]", "n1,,", "@0:", "@a:b"])
def test_text_that_is_no_node_set_is_reported(text: str) -> None:
    with pytest.raises(BadInput):
        expand(text)


@given(st.sets(NAMES, min_size=1, max_size=30))
def test_fold_is_the_way_back(names: set[str]) -> None:
    assert set(expand(fold(names))) == names


TOO_MANY = (
    "n[1-99999999]",
    "n[000000001-999999999]",
    "a[1-9999]b[1-9999]",
    "a[1-999],b[1-200000/2]",
    "n[1-60000],m[1-60000]",
    "n[1-99999999]!n[2-99999999]",
    f"n[1-{'9' * 5000}]",
    "x" + "[1-9]" * 50,
    ",".join(f"n{number}" for number in range(MOST_NODES + 1)),
    "[" * 200_000,
    "n[1-99999999/3",
)


@pytest.mark.parametrize("text", TOO_MANY, ids=range(len(TOO_MANY)))
@pytest.mark.parametrize("expansion", [expand, expand_in_order])
def test_too_many_names_are_refused_before_any_is_made(text: str, expansion: object) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput) as refused:
        expansion(text)  # type: ignore[operator]
    assert len(str(refused.value)) < 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before_kib + 200 * 1024


def test_nodes_of_a_group_are_counted(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "groups.conf").write_text(
        "[Main]\ndefault: own\n[own]\nmap: echo n[1-99999999]\nall: echo m[1-99999999]\n"
    )
    program = "import sys\nfrom offpeak.machines.node_sets import expand\nexpand(sys.argv[1])"
    for text in ("@rack1", "x[1-3],@rack1!n[2-99]", "n*"):
        done = subprocess.run(
            [sys.executable, "-c", program, text],
            env={"CLUSTERSHELL_CFGDIR": str(tmp_path), "PYTHONPATH": str(repository), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert f"{text!r} names more than 100,000 nodes" in done.stderr


RANGES = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 5), st.integers(1, 4)).map(
    lambda each: f"{each[0]:0{each[3]}d}-{each[0] + each[1]:0{each[3]}d}" + (f"/{each[2]}" if each[2] > 1 else "")
)
SETS = st.lists(RANGES, min_size=1, max_size=3).map(lambda ranges: f"[{','.join(ranges)}]")


@given(st.lists(st.tuples(SETS, SETS | st.just("")).map(lambda each: f"n{each[0]}b{each[1]}"), min_size=1, max_size=3))
def test_a_set_never_has_more_names_than_were_counted(pieces: list[str]) -> None:
    text = ",".join(pieces)
    assert len(expand(text)) <= most_names(text)
