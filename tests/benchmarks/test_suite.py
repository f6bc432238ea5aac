"""Where the tests' time goes: what a phase of a test is charged with."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np

from benchmarks.suite import TimesPlugin, spent_in


def test_compiling_is_charged_to_the_phase_that_compiles(tmp_path: Path) -> None:
    plugin, item = TimesPlugin(tmp_path), SimpleNamespace(nodeid="tests/test_x.py::test_y")
    kernel = numba.njit(lambda values: values.sum() + 1)
    for phase in (plugin.pytest_runtest_setup, plugin.pytest_runtest_call, plugin.pytest_runtest_teardown):
        ended(phase(item), lambda: kernel(np.arange(3)))  # type: ignore[arg-type]
    plugin.pytest_unconfigure()
    setup, call, teardown = spent_in(tmp_path)
    assert 0 < setup.compile_s <= setup.wall_s
    assert (call.compile_s, teardown.compile_s) == (0.0, 0.0)
    assert (setup.phase, call.phase, teardown.phase) == ("setup", "call", "teardown")
    assert setup.file == "tests/test_x.py"


def ended(measured: Any, act: Any) -> None:
    """Run a hook around a phase, as pytest does."""
    next(measured)
    act()
    try:
        measured.send(None)
    except StopIteration:
        return
