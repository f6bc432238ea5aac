"""The `offpeak` command, run as an operator runs it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from zygote import Zygote

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the tests without what would change the answers: settings of a site, a forced colour."""
    changing = {"OFFPEAK_CONFIG", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in changing}


@pytest.fixture
def offpeak(environment: dict[str, str], tmp_path: Path, zygote: Zygote) -> Callable[..., Done]:
    """Runs the command in an empty folder; `stdin` is piped in."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> Done:
        command = [zygote.command, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, input=stdin, capture_output=True, check=False)
        return Done(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
