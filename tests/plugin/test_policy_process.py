"""A window policy from outside in its own process: it orders, and a policy that fails, hangs or dies says so."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from installed_policy import WIDEST_FIRST, install_policy

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import OffpeakError
from offpeak.plugin.window_policy import PolicyProcess, WindowView
from offpeak.prices.peak import Peak

StartPolicy = Callable[..., PolicyProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartPolicy]:
    """Installs a policy named "own", and gives its process."""
    running: list[PolicyProcess] = []
    monkeypatch.syspath_prepend(tmp_path)

    def install(code: str, **options: float) -> PolicyProcess:
        install_policy(tmp_path, "own_policy_of_test", "own = own_policy_of_test:order", code)
        running.append(PolicyProcess("own", **options))
        return running[-1]

    yield install
    for process in running:
        process.close()


def view(*size: int) -> WindowView:
    zeros = np.zeros(len(size), np.int64)
    return WindowView(
        now_s=7,
        peak=Peak.ON_PEAK,
        free=4,
        job_id=np.arange(len(size)),
        size=np.array(size, np.int64),
        estimate_s=zeros.copy(),
        waited_s=zeros.copy(),
        node_power_w=np.full(len(size), 300.0),
    )


def test_a_policy_that_forks_answers_once(start: StartPolicy) -> None:
    reverse = "list(reversed(range(len(view.size))))"
    process = start(f"import os\n\n\ndef order(view):\n    os.fork()\n    return {reverse}\n")
    for number in (4, 2, 3):
        assert process.order([view(*[1] * number)]) == [list(reversed(range(number)))]


def test_each_window_gets_its_order_completed_by_the_ranks_left_out(start: StartPolicy) -> None:
    process = start(WIDEST_FIRST)
    assert process.order([view(1, 3, 2), view(5), view()]) == [[1, 2, 0], [0], []]
    assert process.order([]) == []
    process.close()
    assert process.order([view(1, 2)]) == [[1, 0]]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("raise ValueError('no such tariff')", "failed: ValueError: no such tariff (own_policy_of_test.py, line 4)"),
        ("return [0, 0]", "returned [0, 0], which is not an order of 2 jobs"),
        ("return [2]", "returned [2], which is not an order of 2 jobs"),
        ("return None", "returned None"),
        ("return 'ab'", "returned 'ab'"),
        ("return [0.0, 1.0]", "returned [0.0, 1.0]"),
        ("return (rank for rank in (1, 0))", "returned <generator"),
        ("view.size[0] = 9", "failed: ValueError: assignment destination is read-only"),
        ("import os; os._exit(3)", "has ended"),
        ("raise SystemExit", "has ended"),
    ],
)
def test_a_policy_without_an_order_is_one_line_and_the_next_cycle_asks_again(
    start: StartPolicy, body: str, problem: str
) -> None:
    code = f"def order(view):\n    if len(view.size) == 3:\n        return [2, 1, 0]\n    {body}\n"
    process = start(code)
    with pytest.raises(OffpeakError) as error:
        process.order([view(1, 2)])
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert process.order([view(1, 2, 3)]) == [[2, 1, 0]]


def test_a_policy_that_hangs_is_ended_in_time(start: StartPolicy) -> None:
    process = start("def order(view):\n    while len(view.size) == 2:\n        pass\n    return [0]\n", patience_s=0.3)
    with pytest.raises(OffpeakError, match=r"^the window policy 'own' did not answer within 0.3 s$"):
        process.order([view(1, 2)])
    process._patience_s = 300.0
    assert process.order([view(1)]) == [[0]]


def test_a_policy_that_hangs_again_and_again_is_asked_after_pauses_that_double(start: StartPolicy) -> None:
    now_s, asked_s = [0.0], []
    code = "import time\ndef order(view):\n    time.sleep(600 * (len(view.size) == 2))\n    return [0]\n"
    process = start(code, patience_s=0.2, clock=lambda: now_s[0])
    ask, problems = process._ask, set()

    def count(views: list[WindowView]) -> object:
        asked_s.append(now_s[0])
        return ask(views)

    process._ask = count  # type: ignore[method-assign]
    for cycle in range(61):
        now_s[0] = 30.0 * cycle
        with pytest.raises(OffpeakError) as error:
            process.order([view(1, 2)])
        problems.add(str(error.value))
    assert asked_s == [0, 30, 90, 210, 450, 930, 1530]
    silent = "the window policy 'own' did not answer within 0.2 s"
    assert problems == {
        silent,
        f"{silent}; it has failed repeatedly, so it is asked again after pauses of up to 10 min",
    }
    now_s[0] = 2130.0
    process._patience_s = 300.0
    assert process.order([view(1)]) == [[0]]
    process._patience_s = 0.2
    for _ in range(2):
        with pytest.raises(OffpeakError, match=r"did not answer"):
            process.order([view(1, 2)])
    with pytest.raises(OffpeakError, match="failed repeatedly"):
        process.order([view(1)])


def test_closed_while_the_policy_thinks_it_ends_at_once(start: StartPolicy, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    process = start(f"import time\ndef order(view):\n    open({str(begun)!r}, 'w').close()\n    time.sleep(600)\n")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(process.order, [view(1, 2)])
        wait_until(begun.exists, what="the policy to be called")
        process.close()
        with pytest.raises(OffpeakError, match="has ended"):
            answer.result(timeout=300)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_module_anywhere", "cannot be loaded: No module named 'no_such_module_anywhere'"),
        ("import os; os._exit(1)", "has ended"),
    ],
)
def test_a_policy_that_cannot_be_loaded_says_why(start: StartPolicy, code: str, problem: str) -> None:
    process = start(code)
    for ask in (process.check, lambda: process.order([view(1)])):
        with pytest.raises(OffpeakError, match=problem):
            ask()


def test_a_policy_that_is_gone_says_so() -> None:
    with pytest.raises(OffpeakError, match="unknown policy 'gone'"):
        PolicyProcess("gone").check()
