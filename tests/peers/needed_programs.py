"""Programs without which a test has nothing to talk to: there, or the test skips; in CI it fails."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

# Daemons live in folders that an ordinary user's PATH may lack.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def need(files: Sequence[str], *, packages: str) -> None:
    """Go on if every program, and every file that is given as a pattern with slashes, is there."""
    missing = [file for file in files if not _is_there(file)]
    if missing:
        reason = f"needs {', '.join(missing)}: sudo apt-get install {packages}"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)


def _is_there(file: str) -> bool:
    if "/" in file:
        return any(Path("/").glob(file.removeprefix("/")))
    return shutil.which(file, path=SEARCH_PATH) is not None
