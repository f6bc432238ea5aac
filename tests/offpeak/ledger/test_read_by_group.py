"""The agent's ledger as the status page reads it: as a member of the agent's group, which may write nothing there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import SEARCH_PATH
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings

GROUP = 60
READS = """
import sys
from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import latest_actions
with open_ledger(sys.argv[1]) as connection:
    print(len(latest_actions(connection, most=5)), "actions")
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="reads as another user: needs root")


@pytest.fixture
def file() -> Iterator[Path]:
    """The ledger of a folder as offpeak-agent.service makes it."""
    with tempfile.TemporaryDirectory(prefix="offpeak-ledger-") as name:
        os.chown(name, 0, GROUP)
        Path(name).chmod(0o750)
        old = os.umask(0o077)
        try:
            yield Path(name) / "ledger.sqlite"
        finally:
            os.umask(old)


def read(file: Path, repository: Path, group: int) -> subprocess.CompletedProcess[str]:
    texts = ["setpriv", "--reuid=nobody", f"--regid={group}", "--clear-groups", sys.executable, "-c", READS]
    environment = {"PATH": SEARCH_PATH, "PYTHONPATH": str(repository), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [*texts, f"sqlite:///{file}"], env=environment, capture_output=True, text=True, check=False, cwd="/"
    )


def test_the_group_reads_it_while_the_agent_writes_and_when_it_has_ended(file: Path, repository: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}"))
    ledger.ready()
    for path in file.parent.iterdir():
        os.chown(path, 0, GROUP)
    assert file.stat().st_mode & 0o777 == 0o640
    during = read(file, repository, GROUP)
    ledger.close()
    assert not file.with_name("ledger.sqlite-wal").exists()
    after = read(file, repository, GROUP)
    assert (during.stdout, after.stdout) == ("0 actions\n", "0 actions\n"), during.stderr + after.stderr


def test_users_outside_the_group_cannot_read_the_ledger(file: Path, repository: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}"))
    ledger.ready()
    ledger.close()
    assert "Permission" in read(file, repository, 65534).stderr
    elsewhere = file.parent / "own"
    elsewhere.mkdir(0o755)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{elsewhere}/ledger.sqlite"))
    ledger.ready()
    ledger.close()
    assert (elsewhere / "ledger.sqlite").stat().st_mode & 0o777 == 0o600
