"""A hold is in force when its command returns, and it belongs to the person whom the kernel names."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_socket import PUBLISHED, AgentSocket, agent_socket
from memory_journal import MemoryJournal

from offpeak.door.door import Door
from offpeak.door.effect import Effect, Hold, Mode, Refusal
from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder
from offpeak.power.interlocks.preconditions import refuse_held
from offpeak.process import login_uid
from offpeak.services.agent import admin_requests
from offpeak.services.agent.requests import HOLD, Callers, HoldRequest, format_hold, parse_hold_request
from offpeak.services.agent.status import StatusSnapshot
from offpeak.settings.ledger import LedgerSettings

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
NOBODY, GROUP, VIEWERS = 65534, 65533, 65532
ASK = """
import sys
from pathlib import Path
from offpeak.services.agent.status import fetch_snapshot, exchange, send_node_request
from offpeak.services.agent.requests import format_hold, format_order
from offpeak.process import login_name

what, path = sys.argv[1], Path(sys.argv[2])
if what == "order":
    send_node_request(path, "order", "n1", format_order("soft_off", by="admin mallory", reason="x"))
elif what == "picture":
    print(len(fetch_snapshot(path).published.jobs), "jobs")
else:
    exchange(path, {"tell": what, "nodes": "n1", "text": format_hold("new DIMM", None, take_over=False)})
print(login_name())
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")


def ask_as(path: Path, what: str, *rights: str) -> subprocess.CompletedProcess[str]:
    arguments = ["setpriv", *rights, sys.executable, "-c", ASK, what, str(path)]
    names = {"LOGNAME": "mallory", "USER": "mallory", "SUDO_UID": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(arguments, env=names, capture_output=True, text=True, check=False)


@pytest.fixture
def agent() -> Iterator[AgentSocket]:
    # Not below pytest's folder, which is closed to other users.
    with tempfile.TemporaryDirectory(prefix="offpeak-hold-") as name:
        Path(name).chmod(0o755)
        callers = Callers(os.geteuid(), operators_gid=GROUP, viewers_gid=VIEWERS)
        with agent_socket(Path(name) / "agent.sock", callers) as running:
            yield running


@needs_root
def test_an_operator_holds_under_the_name_that_the_kernel_knows(agent: AgentSocket) -> None:
    operator = (f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={GROUP}")
    for what in ("hold", "end_hold"):
        done = ask_as(agent.path, what, *operator)
        assert (done.returncode, done.stdout) == (0, "nobody\n"), done.stderr
    assert agent.held == [("hold", "n1", "nobody"), ("end_hold", "n1", "nobody")]
    # An operator may hold nodes, and orders none.
    assert "only the scheduler's user" in ask_as(agent.path, "order", *operator).stderr
    assert agent.requests == []


@needs_root
def test_a_user_holds_nothing(agent: AgentSocket) -> None:
    done = ask_as(agent.path, "hold", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    assert done.returncode != 0
    assert "only operators may hold, release and cap nodes" in done.stderr
    assert agent.held == []


@needs_root
def test_viewer_sees_all_jobs_and_may_hold_no_node(agent: AgentSocket) -> None:
    """The account of the status page."""
    agent.snapshot = StatusSnapshot(PUBLISHED, "Europe/Berlin", 0.0, 0.0)
    viewer = (f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={VIEWERS}")
    seen = ask_as(agent.path, "picture", *viewer)
    assert (seen.returncode, seen.stdout) == (0, "3 jobs\nnobody\n"), seen.stderr
    for what in ("hold", "end_hold"):
        done = ask_as(agent.path, what, *viewer)
        assert done.returncode != 0
        assert done.stderr.splitlines()[-1].startswith(
            "offpeak.errors.BadInput: only operators may hold, release and cap nodes"
        )
    assert "only the scheduler's user" in ask_as(agent.path, "order", *viewer).stderr
    assert (agent.held, agent.requests) == ([], [])


@needs_root
def test_owner_of_a_hold_is_the_kernels_user(agent: AgentSocket) -> None:
    done = ask_as(agent.path, "order", "--reuid=0")
    assert done.returncode == 0, done.stderr
    (request,) = agent.requests
    assert "mallory" not in request.text
    assert json.loads(request.text)["by"].startswith("admin ")


def test_only_root_may_act_for_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: "1234")
    assert (login_uid(NOBODY, "self"), login_uid(0, "self")) == (NOBODY, 1234)
    monkeypatch.setattr(Path, "read_text", lambda _: str(2**32 - 1))
    assert login_uid(0, "self") == 0


def test_a_hold_ends_by_its_owner_or_is_taken_over(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    try:
        ledger.hold("n1", Hold("ada", "fan"), 1.0)
        with pytest.raises(BadInput, match="n1: is held by ada: fan") as refused:
            ledger.release("n1", "admin bob", 2.0)
        assert refused.value.hint == "ask ada first, then: offpeak nodes n1 release --take-over"
        assert ledger.holds(3.0).keys() == {"n1"}
        assert ledger.release("n1", "admin bob", 4.0, take_over=True) == Hold("ada", "fan")
        ledger.hold("n1", Hold("ada", "fan"), 5.0)
        assert ledger.release("n1", "admin ada", 6.0) == Hold("ada", "fan")
    finally:
        ledger.close()


class Agent:
    """As much of an agent as a hold needs: a door whose rule is `held`, and a ledger."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        limit = refuse_held(self.holds.get, lambda: 0.0)
        self.door = Door(lambda _: Mode.ACTIVE, journal=MemoryJournal(), clock=lambda: 0.0, limits=[("held", limit)])
        self.power = SimpleNamespace(
            now=SimpleNamespace(unix_s=0.0),
            set_hold=self.holds.__setitem__,
            receive=lambda _node, _event: None,
        )
        self.site = SimpleNamespace(by_name={"n1": None})
        self.ledger = SimpleNamespace(hold=lambda *_: None)
        self.open_orders = SimpleNamespace(
            nodes=SimpleNamespace(door=self.door), scheduler=SimpleNamespace(door=self.door)
        )


def test_a_hold_is_confirmed_when_the_order_under_way_has_ended_and_none_follows() -> None:
    agent: Any = Agent()
    request = HoldRequest(HOLD, "n1", "ada", "fan")

    async def scene() -> tuple[dict[str, Any], bool, object]:
        sent, ends = asyncio.Event(), asyncio.Event()

        async def act() -> str:
            sent.set()
            await ends.wait()
            return "accepted"

        order = asyncio.ensure_future(agent.door.let_through(OFF, act))
        await sent.wait()
        confirmation = asyncio.ensure_future(admin_requests.change_hold(agent, request))
        done, _ = await asyncio.wait([confirmation], timeout=0.2)
        ends.set()
        await order
        return await confirmation, bool(done), await agent.door.let_through(OFF, act)

    reply, early, later = asyncio.run(scene())
    assert not early
    assert reply == {"by": "ada", "note": "soft_off by offpeak was under way before: accepted"}
    assert isinstance(later, Refusal)
    assert later.rule == "held"
    assert asyncio.run(admin_requests.change_hold(agent, request)) == {"by": "ada", "note": ""}


def test_malformed_hold_is_refused() -> None:
    text = format_hold("fan", 12.0, take_over=True)
    reply = parse_hold_request({"tell": HOLD, "nodes": "n1", "text": text}, "ada")
    assert reply == HoldRequest(HOLD, "n1", "ada", "fan", 12.0, take_over=True)
    for bad in ("{}", '{"reason": 1, "until_unix_s": null, "take_over": false}'):
        with pytest.raises(BadInput, match="that is not a hold"):
            parse_hold_request({"tell": HOLD, "nodes": "n1", "text": bad}, "ada")
