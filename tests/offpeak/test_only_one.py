"""Only one agent runs, by a lock that ends with its process."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from open_folder import open_folder

from offpeak.errors import BadInput
from offpeak.process import AlreadyRunning, exclusive_lock

pytestmark = pytest.mark.quick

HOLDS = """
import sys, time, pathlib
from offpeak.process import exclusive_lock
with exclusive_lock(pathlib.Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(60)
"""


def holder(folder: Path, repository: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(repository)}
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDS, folder], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "has it\n"
    return started


def test_a_second_is_refused_until_the_first_is_gone_however_it_went(tmp_path: Path, repository: Path) -> None:
    with holder(tmp_path, repository) as first:
        try:
            message = f"^another offpeak switches nodes: process {first.pid}$"
            with pytest.raises(AlreadyRunning, match=message), exclusive_lock(tmp_path):
                pass
        finally:
            first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    with exclusive_lock(tmp_path):
        assert (tmp_path / "agent.lock").read_text() == f"{os.getpid()} {socket.gethostname()}\n"


def test_lock_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with exclusive_lock(tmp_path):
            pass


def test_a_program_that_was_started_does_not_keep_it(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with exclusive_lock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInput, match="lock: cannot be opened: No such file or directory"),
        exclusive_lock(tmp_path / "no"),
    ):
        pass


def test_a_link_in_the_folder_empties_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "of_root"
    other.write_text("as it was")
    (tmp_path / "agent.lock").symlink_to(other)
    with pytest.raises(BadInput, match="lock: cannot be opened"), exclusive_lock(tmp_path):
        pass
    assert other.read_text() == "as it was"


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_a_user_who_may_not_switch_is_not_reported_to_make_a_folder_that_is_there() -> None:
    with open_folder() as folder:
        program = "import os, sys\nfrom pathlib import Path\nfrom offpeak.errors import BadInput\n"
        program += "from offpeak.process import exclusive_lock\nos.setgid(65534)\nos.setuid(65534)\n"
        program += (
            "try:\n    with exclusive_lock(Path(sys.argv[1])): pass\nexcept BadInput as problem: print(problem.hint)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.stdout == f"run it as root or as the agent's user, which may write to {folder}\n", done.stderr
