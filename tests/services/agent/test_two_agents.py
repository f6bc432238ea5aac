"""Two agents with a state folder and a socket each, and one ledger: one acts, the second is refused or stands by."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from zygote import Forked, Zygote

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import OffpeakError
from offpeak.services.agent.status import StatusReply, exchange, fetch_snapshot, fetch_status

HOST = socket.gethostname()


def settings_of(folder: Path, url: str) -> Path:
    """Write the settings of an agent without nodes, on a machine without a scheduler."""
    folder.mkdir()
    file = folder / "offpeak.toml"
    file.write_text(
        f'[agent]\nstate_folder = "{folder}"\nsocket = "{folder}/agent.sock"\ncycle = "1s"\n'
        f'[ledger]\nurl = "{url}"\nlease = "5s"\n'
    )
    return file


def start(zygote: Zygote, settings: Path) -> Forked:
    return zygote.start(("agent", "--config", str(settings)), settings.with_name("agent.log"), os.environ)


def status(settings: Path) -> StatusReply | None:
    """Return the status of the agent, None while it gives none."""
    try:
        return fetch_status(settings.with_name("agent.sock"), ask="status")
    except OffpeakError:
        return None


def acts(settings: Path) -> bool:
    reply = status(settings)
    return reply is not None and reply.lease is not None and reply.lease.is_active


def stands_by(settings: Path) -> bool:
    reply = status(settings)
    return reply is not None and reply.lease is not None and f"{HOST} stands by; {HOST}" in reply.lease.text


def output(zygote: Zygote, settings: Path, *command: str) -> str:
    arguments = (zygote.command, *command, "--config", str(settings))
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def test_with_sqlite_the_second_agent_says_who_has_the_ledger(tmp_path: Path, zygote: Zygote) -> None:
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    one, other = settings_of(tmp_path / "one", url), settings_of(tmp_path / "other", url)
    first = start(zygote, one)
    try:
        wait_until(lambda: "started in mode" in one.with_name("agent.log").read_text(), what="the first agent")
        command = (zygote.command, "agent", "--config", str(other))
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert second.returncode not in (0, None)
        assert "another agent has the ledger" in second.stderr
        assert str(first.pid) in second.stderr
        assert not (tmp_path / "other" / "agent.sock").exists()
        command = (zygote.command, "ledger", "prune", "--ledger", url)
        assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0
    finally:
        first.terminate()
        first.wait(300)


def test_with_postgresql_the_second_agent_stands_by_and_takes_over(
    tmp_path: Path, zygote: Zygote, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").create("two_agents")
    one, other = settings_of(tmp_path / "one", url), settings_of(tmp_path / "other", url)
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(str(tmp_path / "notify"))
    notices.settimeout(300)
    first = start(zygote, one)
    agents = [first]
    try:
        wait_until(lambda: acts(one), what="the first agent")
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        second = zygote.start(("agent", "--config", str(other)), other.with_name("agent.log"), environment)
        agents.append(second)
        wait_until(lambda: stands_by(other), what="the second agent to stand by")
        assert notices.recv(1000).decode().startswith("READY=1\nWATCHDOG=1\nSTATUS=")
        line = f"{HOST} stands by; {HOST} (process {first.pid}) is active"
        shown = output(zygote, other, "status")
        assert shown.splitlines()[0] == f"lease        {line}"
        wait_until(
            lambda: f"(process {second.pid}) stands by" in output(zygote, one, "status"), what="the first to see"
        )
        hold = ("nodes", "n1", "hold", "--reason", "new DIMM")
        for order in (("shed", "30%", "--for", "2h"), ("cap", "n1", "350W", "--for", "2h"), hold):
            assert f"{line}\n" in output(zygote, other, *order), order
        with pytest.raises(OffpeakError, match="stands by"):
            exchange(other.with_name("agent.sock"), {"tell": "resume", "nodes": "n1", "text": ""})
        assert fetch_snapshot(other.with_name("agent.sock")).published.lease is not None
        # A reload ends no agent that stands by.
        os.kill(second.pid, signal.SIGHUP)
        wait_until(
            lambda: "take effect when this agent becomes active" in other.with_name("agent.log").read_text(),
            what="the reload",
        )
        first.terminate()
        first.wait(300)
        wait_until(lambda: acts(other), what="the second to take over")
        agents.append(start(zygote, one))
        wait_until(lambda: stands_by(one), what="the first to stand by")
        os.kill(second.pid, signal.SIGSTOP)
        wait_until(lambda: acts(one), what="the first to take over from a frozen agent")
        before = other.with_name("agent.log").read_text()
        os.kill(second.pid, signal.SIGCONT)
        # The end of its lease came while it was stopped: the kernel ends it before any of its code runs.
        second.wait(300)
        assert other.with_name("agent.log").read_text() == before
        wait_until(lambda: acts(one), what="the first to act still")
    finally:
        for agent in agents:
            agent.kill()
        notices.close()
