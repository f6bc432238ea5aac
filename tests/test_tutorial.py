"""The tutorial of a week of shadow mode, typed into one terminal as it stands: what is shown is what is printed."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shown_output import pattern
from zygote import Zygote

pytestmark = pytest.mark.thorough

STEP = re.compile(r"^```sh\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LONGEST_S = 300.0
MARK = "=== end of a step ==="


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "tutorial" / "week-of-shadow.md").read_text(encoding="utf-8")


def test_followed_literally(page: str, tmp_path: Path, zygote: Zygote) -> None:
    steps = STEP.findall(page)
    assert len(steps) > 8
    script = "".join(f"{typed}echo '{MARK}'\n" for typed, _ in steps)
    path = os.pathsep.join([str(zygote.command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "OFFPEAK_CONFIG"}
    # A session of its own: whatever it started ends with it.
    terminal = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environment | {"PATH": path, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaints = terminal.communicate(timeout=LONGEST_S)
    finally:
        _end(terminal.pid)
    parts = printed.split(f"{MARK}\n")
    assert (terminal.returncode, len(parts)) == (0, len(steps) + 1), f"{printed}\n{complaints}"
    for (typed, shown), reply in zip(steps, parts, strict=False):
        if shown:
            assert re.fullmatch(pattern(shown), reply), f"{typed}\n{reply}"


def _end(session: int) -> None:
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return
