"""Programs without which a test has nothing to talk to: there, or the test skips; in CI it fails."""

import os
from collections.abc import Sequence

import pytest

from benchmarks.local_slurm.processes import missing_files


def need(files: Sequence[str], *, packages: str) -> None:
    """Go on if every program, and every file that is given as a pattern with slashes, is there."""
    if missing := missing_files(files):
        reason = f"needs {', '.join(missing)}: sudo apt-get install {packages}"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
