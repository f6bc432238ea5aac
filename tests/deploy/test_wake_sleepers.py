"""While no agent wakes them, nodes that it has put to sleep are woken, and given back when they are up."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pbs_standin import StandIn, standin

from offpeak.model.orders import NodeChange
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

KINDS = pytest.mark.parametrize("kind", [TORQUE, OPENPBS])


class Sleepers:
    """A stand-in whose nodes the agent's adapter puts to sleep, and the program."""

    def __init__(self, running: StandIn, folder: Path, repository: Path) -> None:
        self.server, self._folder = running, folder
        self._script = repository / "deploy" / "pbs" / "offpeak-wake-sleepers"
        settings = PbsSettings(timeout_s=300)
        torque = running.pbs.kind == TORQUE
        self.scheduler: Scheduler = TorqueScheduler(settings) if torque else OpenPbsScheduler(settings)
        self.complaints, self.resume = "", '#!/bin/sh\necho "$@" >> {woken}\n'

    def run(self) -> tuple[int, list[str]]:
        """Run the program; return its exit code and which nodes offpeak-resume was called to wake."""
        resume, output = self._folder / "resume", self._folder / "woken"
        resume.write_text(self.resume.format(woken=output))
        resume.chmod(0o755)
        output.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "PATH": self.server.path,
            "OFFPEAK_SOCKET": str(self._folder / "agent.sock"),
            "OFFPEAK_RESUME": str(resume),
            "RUNTIME_DIRECTORY": str(self._folder / "state"),
        }
        arguments = (sys.executable, "-I", self._script)
        done = subprocess.run(arguments, env=environment, check=False, capture_output=True, text=True)
        self.complaints = done.stderr
        return done.returncode, output.read_text().splitlines() if output.exists() else []

    def change(self, name: str, *changes: NodeChange) -> None:
        for change in changes:
            assert self.scheduler.change_nodes([name], change, reason="offpeak: x") == {}

    def falls_asleep(self, name: str) -> None:
        """As the agent does it: the node goes down while it is closed, and is marked when it is off."""
        self.change(name, NodeChange.CLOSE)
        self.goes_down(name)
        self.change(name, NodeChange.POWER_DOWN)

    def goes_down(self, name: str) -> None:
        self.server.do(lambda pbs: pbs.cluster.goes_down(name, time.time()))

    def comes_up(self, name: str) -> None:
        self.server.do(lambda pbs: pbs.cluster.comes_up(name, time.time()))
        # Marks are in whole seconds: what the daemon reports is later than that.
        time.sleep(1.1)

    def node(self, name: str) -> Node:
        return next(node for node in self.scheduler.view().nodes if node.name == name)


@pytest.fixture
def make_sleepers(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    @contextmanager
    def make(kind: str) -> Iterator[Sleepers]:
        with standin(kind, tmp_path) as running:
            monkeypatch.setenv("PATH", running.path)
            yield Sleepers(running, tmp_path, repository)

    return make


@contextmanager
def agent(folder: Path, reply: object) -> Iterator[None]:
    """Answer one question with this."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "agent.sock"))
        listening.listen()

        def answer() -> None:
            caller, _ = listening.accept()
            with caller:
                caller.recv(100)
                caller.sendall(json.dumps(reply).encode() + b"\n")

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        yield
        answering.join(300)
    (folder / "agent.sock").unlink()


@KINDS
def test_sleepers_are_woken_and_the_end_says_whether_all_are_back(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        assert sleepers.run() == (0, [])
        for name in ("node1", "node2"):
            sleepers.falls_asleep(name)
        # An admin has taken this one.
        sleepers.goes_down("node3")
        assert sleepers.run() == (1, ["--wake node1,node2"])
        assert [line.partition(":")[2][:20] for line in sleepers.complaints.splitlines()] == [
            " node1: still off: r",
            " node2: still off: r",
        ]
        sleepers.comes_up("node1")
        assert sleepers.run() == (1, ["--wake node2"])
        assert (sleepers.node("node1").closed, str(sleepers.node("node1").power)) == (False, "on")
        sleepers.comes_up("node2")
        assert sleepers.run()[1] == []
        assert sleepers.run() == (0, [])


@KINDS
def test_nodes_whose_down_was_written_over_are_woken_too(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        sleepers.falls_asleep("node1")
        if kind == OPENPBS:
            # What an older version, or an admin, does; the server forgets that the node is down.
            sleepers.server.run("qmgr", "-c", "set node node1 state = sleep")
            assert sleepers.node("node1").native_state == "sleep"
        else:
            # Torque notices up to a minute late that a daemon is gone.
            sleepers.server.do(lambda pbs: setattr(pbs.cluster.nodes["node1"], "shown_up", True))
            assert sleepers.node("node1").native_state == "offline"
        assert sleepers.run() == (1, ["--wake node1"])


@KINDS
def test_a_node_ordered_down_just_before_the_agent_ended(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        for name in ("node1", "node2"):
            sleepers.change(name, NodeChange.CLOSE)
        # The program cannot know which of them has an order to follow: one goes down after a while.
        assert sleepers.run() == (1, [])
        assert "node1: still closed: an order to sleep may take it down yet: `offpeak agent" in sleepers.complaints
        sleepers.goes_down("node1")
        assert sleepers.run() == (1, ["--wake node1"])
        sleepers.comes_up("node1")
        assert sleepers.run() == (1, [])
        assert [sleepers.node(name).closed for name in ("node1", "node2")] == [False, True]


@KINDS
def test_a_sleeping_node_that_was_withdrawn_from_jobs_is_woken(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        sleepers.falls_asleep("node1")
        sleepers.change("node1", NodeChange.WITHDRAW)
        assert sleepers.node("node1").closed_by_us
        assert sleepers.run() == (1, ["--wake node1"])
        sleepers.comes_up("node1")
        sleepers.run()
        assert sleepers.run() == (0, [])
        assert not sleepers.node("node1").closed


@KINDS
def test_node_closed_by_an_admin_stays_closed(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        sleepers.falls_asleep("node1")
        run = sleepers.server.run
        if kind == OPENPBS:
            run("qmgr", "-c", "set node node1 state += offline")
            run("qmgr", "-c", "set node node2 state = offline")
        else:
            run("pbsnodes", "-o", "-N", "console server", "node1", "node2")
        assert sleepers.run() == (0, [])
        assert "offline" in sleepers.node("node2").native_state


@KINDS
def test_an_agent_that_wakes_is_left_alone(kind: str, make_sleepers: Any, tmp_path: Path) -> None:
    with make_sleepers(kind) as sleepers:
        for name in ("node1", "node2"):
            sleepers.falls_asleep(name)
        sleepers.change("node3", NodeChange.CLOSE)
        # An agent of an older version does not report which nodes it wakes.
        for reply in ({"published": {}}, {"error": "no cycle has ended yet"}):
            with agent(tmp_path, reply):
                assert sleepers.run() == (0, [])
        with agent(tmp_path, {"wakes": ["node1", "node2", "node3"]}):
            assert sleepers.run() == (0, [])
        # In mode shadow, or where the scheduler cannot be read, an agent answers and wakes nothing.
        with agent(tmp_path, {"wakes": ["node2"]}):
            assert sleepers.run() == (1, ["--wake node1"])
        assert sleepers.node("node3").closed


@KINDS
def test_a_server_that_does_not_answer_is_no_success(kind: str, make_sleepers: Any) -> None:
    with make_sleepers(kind) as sleepers:
        sleepers.falls_asleep("node1")
    assert sleepers.run() == (1, [])
    assert "cannot connect" in sleepers.complaints


def test_offpeak_resume_that_fails_is_reported(make_sleepers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_sleepers(OPENPBS) as sleepers:
        sleepers.falls_asleep("node1")
        monkeypatch.setattr(sleepers, "resume", "#!/bin/sh\necho 'no way to node1' >&2\nexit 1\n")
        assert sleepers.run() == (1, [])
        assert "no way to node1" in sleepers.complaints
