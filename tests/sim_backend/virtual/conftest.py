"""A small room that the tests of one file share, and the programs that speak to it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served_room import ServedRoom, planned, served_room

Done = subprocess.CompletedProcess[str]

FASTER = 1000.0
"""A boot of five minutes takes a third of a second."""


@pytest.fixture(scope="module")
def room() -> Iterator[ServedRoom]:
    """Sixteen nodes n01 to n16 whose time runs a thousand times as fast."""
    with served_room(planned("n[01-16]", clock_factor=FASTER)) as room:
        yield room


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    """Runs a program and returns what it printed, however it ended; it leaves its own files in an empty folder."""
    home = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(tmp_path),
        "MIBS": "",
        "SNMP_PERSISTENT_DIR": str(tmp_path),
    }

    def run(*command: str) -> Done:
        return subprocess.run(command, env=home, capture_output=True, text=True, timeout=300, check=False)

    return run
