"""Tasks in one process and in two. The functions are of the standard library: new processes must find them."""

import math
import os

import pytest

from offpeak.errors import BadInput, OffpeakError
from studies.harness import run_all


def answers(tasks: list[int], processes: int) -> dict[int, float]:
    found: dict[int, float] = {}
    run_all(math.sqrt, tasks, processes, found.__setitem__)
    return found


def test_two_processes_answer_as_one() -> None:
    tasks = list(range(20))
    assert answers(tasks, 2) == answers(tasks, 1) == {task: math.sqrt(task) for task in tasks}


def test_no_task_needs_no_process() -> None:
    assert answers([], 2) == {}


def test_a_task_that_fails_fails_here() -> None:
    with pytest.raises(ValueError, match="math domain error"):
        answers([1, -1, 2], 2)


def test_an_error_of_ours_keeps_its_hint() -> None:
    error = BadInput("a log is wrong", hint="mend it")

    def fail_on_two(task: int, _answer: float) -> None:
        if task == 2:
            raise error

    with pytest.raises(BadInput) as caught:
        run_all(math.sqrt, [1, 2, 3], 2, fail_on_two)
    assert caught.value.hint == "mend it"


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(OffpeakError, match="a process of the study was killed"):
        run_all(os._exit, [1, 1], 2, lambda _task, _answer: None)
