"""What users get to read: the message of the day, the mail, and the status at login, which no slow agent delays."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import SEARCH_PATH
from offpeak.model.flexibility import RIGID, parse_user_hints
from offpeak.ui.command import TASKS

COMMANDS = {name for group in TASKS.values() for name in group}
STATUS = """\
elbe: mode active, slurm 22.05.8
price        52.00 EUR/MWh, off-peak until 16:00 (published)
nodes        20 off, 44 on
saved today  2.71 EUR
- n006: held by ann
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_nobody(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*who, *command], env={"PATH": SEARCH_PATH, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["motd", "mail.txt"])
def test_commands_and_hints_of_the_texts_are_known(repository: Path, name: str) -> None:
    text = (repository / "deploy" / "users" / name).read_text()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 105
    assert {"CLUSTER", "PAGE"} <= set(re.findall(r"\b[A-Z]{4,}\b", text))
    named = re.findall(r"offpeak ([a-z]+) JOBID", text)
    assert named
    assert set(named) <= COMMANDS
    hints = [parse_user_hints(comment, UTC) for comment in re.findall(r"--comment=(\S+)", text)]
    assert len(hints) >= 2
    assert all(each != RIGID and not each.errors for each in hints)


def test_the_status_at_login_is_read_from_a_fresh_file_by_any_user(repository: Path, open_to_all: Path) -> None:
    program, file = open_to_all / "60-offpeak", open_to_all / "status.txt"
    program.write_text((repository / "deploy/users/motd-now").read_text())
    program.chmod(0o755)
    for text, age_s, shown in (
        (None, 0, []),
        (STATUS, 0, STATUS.splitlines()[1:4]),
        (STATUS, 3600, []),
        ("", 0, []),
    ):
        if text is not None:
            file.write_text(text)
            then = file.stat().st_mtime - age_s
            os.utime(file, (then, then))
        done = as_nobody(program, OFFPEAK_STATUS=str(file))
        assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, shown, ""), (text, age_s)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: needs root")
def test_the_status_is_asked_for_as_nobody_and_stays_while_no_agent_answers(
    repository: Path, open_to_all: Path
) -> None:
    cron = (repository / "deploy/users/offpeak-status.cron").read_text()
    lines = re.findall(r"(?m)^\*/2 \* \* \* \* root (.*)$", cron)
    share, command = open_to_all / "share", open_to_all / "offpeak"
    share.mkdir()
    command.write_text('#!/bin/sh\necho "$(id -un) $*"; exit ${EXIT:-0}\n')
    command.chmod(0o755)
    # The cron daemon's own path has neither runuser nor /usr/local/bin.
    (path,) = re.findall(r"(?m)^PATH=(.*)$", cron)
    environment = {"PATH": f"{open_to_all}:{path}"}
    for line in lines:
        shell = ["sh", "-c", line.replace("/srv/offpeak-card", str(share))]
        subprocess.run(shell, env=environment, check=True)
        assert subprocess.run(shell, env=environment | {"EXIT": "2"}, check=False).returncode == 2
    assert (share / "status.json").read_text() == "nobody status --json\n"
    assert (share / "status.txt").read_text() == "nobody status\n"
    assert {each.stat().st_mode & 0o777 for each in share.glob("status.*")} == {0o644}
