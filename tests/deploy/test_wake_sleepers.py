"""While no agent runs, nodes that it has put to sleep are woken, and given back when they are up."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin

from offpeak.pbs_settings import PbsSettings
from plugin.openpbs.scheduler import OpenPbsScheduler
from plugin.scheduler.port import NodeChange, Scheduler
from plugin.torque.scheduler import TorqueScheduler


def run(running: StandIn, folder: Path, repository: Path) -> str:
    """Return what offpeak-resume was told."""
    resume, said = folder / "resume", folder / "said"
    resume.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    resume.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": running.path,
        "OFFPEAK_SOCKET": str(folder / "agent.sock"),
        "OFFPEAK_RESUME": str(resume),
    }
    script = repository / "deploy" / "pbs" / "offpeak-wake-sleepers"
    subprocess.run((sys.executable, "-I", script), env=environment, check=True, capture_output=True)
    return said.read_text() if said.exists() else ""


def asleep(running: StandIn, scheduler: Scheduler) -> None:
    """Put node1 and node2 to sleep; an admin has taken node3."""
    for name in ("node1", "node2"):
        for change in (NodeChange.CLOSE, NodeChange.POWER_DOWN):
            assert scheduler.change_nodes([name], change, reason="offpeak: x") == {}
        running.do(lambda pbs, name=name: pbs.cluster.goes_down(name, 0))
    running.do(lambda pbs: pbs.cluster.goes_down("node3", 0))


@pytest.mark.parametrize("kind", ["torque", "openpbs"])
def test_sleepers_are_woken(kind: str, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin(kind, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        settings = PbsSettings(timeout_s=20)
        scheduler: Scheduler = TorqueScheduler(settings) if kind == "torque" else OpenPbsScheduler(settings)
        asleep(running, scheduler)
        assert run(running, tmp_path, repository) == "--wake node1,node2\n"
        running.do(lambda pbs: pbs.cluster.comes_up("node1", 1e10))
        assert run(running, tmp_path, repository).splitlines()[1:] == ["--wake node2"]
        nodes = {node.name: node for node in scheduler.view().nodes}
        assert (nodes["node1"].closed, str(nodes["node1"].power)) == (False, "up")


def test_with_an_agent_nothing_is_done(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("torque", tmp_path) as running, socket.socket(socket.AF_UNIX) as agent:
        monkeypatch.setenv("PATH", running.path)
        asleep(running, TorqueScheduler(PbsSettings(timeout_s=20)))
        agent.bind(str(tmp_path / "agent.sock"))
        agent.listen()

        def answer() -> None:
            caller, _ = agent.accept()
            with caller:
                caller.recv(100)
                caller.sendall(b"{}\n")

        threading.Thread(target=answer, daemon=True).start()
        assert run(running, tmp_path, repository) == ""
