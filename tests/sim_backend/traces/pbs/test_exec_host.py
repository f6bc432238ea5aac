"""Nodes and processors of exec_host, in the notations of Torque 4, Torque 6 and OpenPBS."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.pbs.log import JobPlacement, places_of

pytestmark = pytest.mark.quick

HOSTS = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)
SLOTS_OF_HOSTS = st.dictionaries(HOSTS, st.sets(st.integers(0, 40), min_size=1), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("exec_host", "nodes", "processors"),
    [
        ("n001/0", 1, 1),
        ("n001/0+n001/1+n002/0", 2, 3),
        ("n001/0-1+n002/3", 2, 3),
        ("torque-dev-03.site/0-2,5,7-8", 1, 6),
        ("n001/0*4+n001/1*4", 1, 8),
        ("n001/1", 1, 1),
        ("n001/0*0+n002/0*8", 2, 8),
    ],
)
def test_the_notations(exec_host: str, nodes: int, processors: int) -> None:
    assert places_of(exec_host.encode()) == JobPlacement(nodes, processors)


@given(slots_of=SLOTS_OF_HOSTS)
def test_all_notations_count_the_same(slots_of: dict[str, set[int]]) -> None:
    torque_4 = "+".join(f"{host}/{slot}" for host, slots in slots_of.items() for slot in sorted(slots))
    torque_6 = "+".join(f"{host}/{','.join(map(str, sorted(slots)))}" for host, slots in slots_of.items())
    openpbs = "+".join(f"{host}/{chunk}*{len(slots)}" for chunk, (host, slots) in enumerate(slots_of.items()))
    expected = JobPlacement(len(slots_of), sum(map(len, slots_of.values())))
    assert [places_of(each.encode()) for each in (torque_4, torque_6, openpbs)] == [expected] * 3


@pytest.mark.parametrize("exec_host", [b"", b"n001", b"n001/x", b"n001/0+", b"n001/0*", b"n001/0*9999999999", b"\xff"])
def test_other_notations_are_refused(exec_host: bytes) -> None:
    with pytest.raises(ValueError, match=r"^exec_host cannot be read: "):
        places_of(exec_host)
