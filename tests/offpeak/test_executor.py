"""Executors: the same results wherever tasks run, and clear errors where they cannot."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scaling import DaskServers, dask_servers
from offpeak import executor as executors
from offpeak.errors import BadInput, OffpeakError
from offpeak.executor import QUIET_DASK, DaskWorkers, Executor, LocalProcesses, RemoteFunction, Threads, program


@pytest.fixture(scope="module")
def servers() -> Iterator[DaskServers]:
    with dask_servers(workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def workers(servers: DaskServers) -> Iterator[DaskWorkers]:
    with DaskWorkers(servers.on) as connected:
        yield connected


@pytest.fixture(params=["threads", "two", "dask"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "dask":
        connected: DaskWorkers = request.getfixturevalue("workers")
        return connected
    return Threads() if request.param == "threads" else LocalProcesses(2)


def answers(executor: Executor, function: Callable[[Any], Any], tasks: list[Any]) -> dict[Any, Any]:
    found: list[tuple[Any, Any]] = []
    executor.run(function, tasks, lambda task, result: found.append((task, result)))
    assert len(found) == len(dict(found))
    return dict(found)


def test_each_task_has_one_result(executor: Executor) -> None:
    tasks = list(range(100))
    assert answers(executor, math.sqrt, tasks) == {task: math.sqrt(task) for task in tasks}


def test_no_task_needs_no_worker(executor: Executor) -> None:
    assert answers(executor, math.sqrt, []) == {}


def refuse(task: int) -> int:
    raise BadInput(f"the log {task} is wrong", hint="mend it")


def test_an_error_of_ours_keeps_its_hint(executor: Executor) -> None:
    with pytest.raises(BadInput, match="the log 1 is wrong") as caught:
        answers(executor, partial(refuse), [1, 1])
    assert caught.value.hint == "mend it"


def test_what_receives_a_result_may_end_the_run(executor: Executor) -> None:
    def stop(_task: int, _result: float) -> None:
        raise BadInput("the disk is full")

    with pytest.raises(BadInput, match="the disk is full"):
        executor.run(math.sqrt, [1, 2, 3], stop)


def end_once(mark: Path, task: int) -> int:
    if task == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


@pytest.mark.parametrize("place", ["two", "dask"])
def test_a_worker_that_is_killed_costs_no_result(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    executor = LocalProcesses(2) if place == "two" else request.getfixturevalue("workers")
    assert answers(executor, partial(end_once, tmp_path / "mark"), [0, 1, 2, 3]) == {each: each for each in range(4)}
    assert (tmp_path / "mark").exists()


def test_processes_that_are_killed_each_time_are_an_error() -> None:
    with pytest.raises(OffpeakError, match="processes were killed 3 times in a row"):
        answers(LocalProcesses(2), os._exit, [1, 2])


def test_a_task_that_kills_each_worker_is_an_error() -> None:
    # By default a task is given up after four workers.
    at_once = QUIET_DASK | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with (
        dask_servers(workers=1, quiet=at_once) as servers,
        DaskWorkers(servers.on) as workers,
        pytest.raises(OffpeakError, match="a task lost all its workers"),
    ):
        answers(workers, partial(os._exit), [1])


def test_a_scheduler_that_goes_is_one_line() -> None:
    with dask_servers(workers=1) as servers, DaskWorkers(servers.on) as workers:

        def stop(_task: int, _result: float) -> None:
            servers.stop_scheduler()

        with pytest.raises(OffpeakError, match=r"^dask://127\.0\.0\.1:\d+: the Dask scheduler is gone$") as caught:
            workers.run(math.sqrt, list(range(2000)), stop)
    assert "continues where it stopped" in caught.value.hint


def test_no_scheduler_answers() -> None:
    with DaskWorkers("dask://127.0.0.1:9") as workers, pytest.raises(OffpeakError, match="no Dask scheduler answers"):
        answers(workers, math.sqrt, [1])


def test_another_program_on_a_worker_is_refused() -> None:
    remote = RemoteFunction(pickle.dumps(math.sqrt), program().replace("offpeak 0", "offpeak 9"))
    with pytest.raises(OffpeakError, match=r"^worker on .*: it runs offpeak 0.* numba .*; the caller offpeak 9"):
        pickle.loads(pickle.dumps(remote))([pickle.dumps(4)])


def test_a_policy_that_a_worker_lacks_is_named() -> None:
    remote = RemoteFunction(b"cabsent_package\npolicy\n.", program())
    with pytest.raises(BadInput, match=r"^worker on .*: No module named 'absent_package'") as caught:
        remote([pickle.dumps(4)])
    assert "packages of your own policies" in caught.value.hint


def test_what_cannot_travel_is_named(workers: DaskWorkers) -> None:
    with pytest.raises(BadInput, match=r"cannot be sent to workers: cannot pickle '_thread\.lock' object"):
        answers(workers, partial(print, threading.Lock()), [1])


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("head:8786", "--on head:8786: no such place to run"),
        ("slurm:few", "--on slurm:few: 'few' is not a number of jobs"),
    ],
)
def test_a_place_that_does_not_exist(on: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        DaskWorkers(on)


@pytest.mark.parametrize(("on", "package"), [("dask://head:8786", "distributed"), ("slurm", "dask-jobqueue")])
def test_without_the_extra_its_command_is_named(on: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = package.replace("-", "_")
    monkeypatch.setattr(executors, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(BadInput, match=f"--on {on} needs {package}, which is not installed") as caught:
        DaskWorkers(on)
    assert "pip install" in caught.value.hint
    assert "scale" in caught.value.hint


SLEEPERS = """
import time
from offpeak.executor import LocalProcesses

if __name__ == "__main__":
    LocalProcesses(2).run(time.sleep, [0.01, 1, 1], lambda task, _: print(task, flush=True))
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_stays(sent: signal.Signals, tmp_path: Path) -> None:
    """After SIGTERM the tasks end first, as after Ctrl-C; the test does not wait for them."""
    script = tmp_path / "run.py"
    script.write_text(SLEEPERS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0.01\n"
        children = children_of(process.pid)
        assert len(children) >= 2
        process.send_signal(sent)
        _, errors = process.communicate(timeout=300)
    assert (b"KeyboardInterrupt" in errors) == (sent == signal.SIGTERM)
    deadline = time.monotonic() + 300
    while any(map(is_running, children)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
