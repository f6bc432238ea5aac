"""A node with GPUs is up once all of them answer; one that lacks a GPU is reported, and an admin may use it."""

from dataclasses import replace

import pytest
from walked_node import SERVER, Walk, context_of

pytestmark = pytest.mark.quick

WAKE_S = 600


def woken(gpus: int = 4) -> Walk:
    walk = Walk(context_of(replace(SERVER, gpus=gpus))).seen("on").desires("soft_off").ordered()
    return walk.passes(90).seen("off").desires("on").ordered().passes(60).seen("on", answers=False)


def test_it_boots_until_the_last_gpu_answers() -> None:
    walk = woken()
    assert walk.state == "booting"
    for gpus in (0, 3):
        walk.passes(10).seen("on", answers=True, gpus=gpus)
        assert (walk.state, walk.record.fault) == ("booting", None)
    assert walk.record.observed.problem == "3 of its 4 GPUs answer"
    walk.passes(10).seen("on", answers=True, gpus=4)
    assert (walk.state, walk.record.observed.problem, walk.record.observed.by) == ("on", "", "offpeak")
    assert woken(gpus=0).seen("on", answers=True).state == "on"


@pytest.mark.parametrize(
    ("gpus", "missing"),
    [
        (3, "3 of its 4 GPUs answer"),
        (0, "none of its 4 GPUs answer"),
        (None, "how many of its 4 GPUs answer is not known: its offpeak-node may be of an older release"),
    ],
)
@pytest.mark.parametrize("scheduler_counts_on_it", [False, True])
def test_a_lost_gpu_is_reported_in_time_and_found_again(
    gpus: int | None, missing: str, scheduler_counts_on_it: bool
) -> None:
    walk = woken().passes(10).seen("on", answers=True, gpus=gpus)
    if scheduler_counts_on_it:
        walk.reports("up").desires(None)
    walk.passes(WAKE_S).seen("on", answers=True, gpus=gpus)
    fault = walk.record.fault
    assert fault is not None
    assert fault.what == "does not come up"
    assert fault.reason.startswith(f"it has power, but {missing}, and on was not followed within ")
    assert fault.hint == "see nvidia-smi or amd-smi, and dmesg; `offpeak nodes n1 wake` takes the node as it is"
    # Nothing switches it, also not to sleep.
    assert walk.desires("soft_off").order is None
    walk.passes(3600).seen("on", answers=True, gpus=4)
    assert (walk.state, walk.record.fault) == ("on", None)


def test_an_admin_takes_the_node_as_it_is() -> None:
    walk = woken().passes(WAKE_S).seen("on", answers=True, gpus=3)
    walk.desires("on", by="admin ann").seen("on", answers=True, gpus=3)
    assert (walk.state, walk.record.fault, walk.record.observed.problem) == ("on", None, "")
    walk.desires(None).passes(60).seen("on")
    assert walk.state == "on"


def test_a_silent_node_lacks_no_gpu_and_a_job_on_one_that_lacks_one_stays() -> None:
    walk = woken().passes(WAKE_S).seen("on", answers=False)
    assert walk.record.fault is not None
    assert "GPU" not in walk.record.fault.reason
    busy = woken().reports("busy").desires(None).seen("on", answers=True, gpus=3)
    assert (busy.state, busy.desires("soft_off").order) == ("booting", None)
