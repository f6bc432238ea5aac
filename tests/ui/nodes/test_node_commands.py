"""`offpeak nodes` against BMCs that answer, and one that does not."""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from agent_socket import AT_S, PUBLISHED, agent_socket
from memory_book import MemoryBook
from scheduler_values import node_of
from served_room import ServedRoom, planned, served_room

from offpeak.door.effect import Hold
from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import NodeStateRecord
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.admin_order import AdminOrder, execute_order
from offpeak.power.lifecycle.node_record import NodeRecord
from offpeak.process import exclusive_lock
from offpeak.services.agent.status import NodeStatus, StatusSnapshot
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.node import BmcFaults, VirtualNode
from offpeak.ui.command import run
from offpeak.ui.nodes import orders as node_orders

SITE = """\
[credentials]
bmc = {{ user = "admin", password_file = "bmc.password" }}

[hardware.compute]
driver = "ipmi"
credential = "bmc"
port = {plan.bmc_port}
soft_off = {{ enter_timeout = "60s", wake_timeout = "60s" }}

[[machines]]
nodes = "n[1-4]"
hardware = "compute"
bmc = "{bmcs}"

[enrolled]
{enrolled}
"""
ACTIVE = AgentSettings(mode="active", nodes="n[1-4]")


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def offpeak(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs the command in this process: starting one takes longer than what is tested."""
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)

    def offpeak(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return offpeak


@pytest.fixture(scope="module")
def served() -> Iterator[ServedRoom]:
    with served_room(planned("n[1-4]", clock_factor=400)) as room:
        yield room


@pytest.fixture
def room(served: ServedRoom) -> ServedRoom:
    """All on, well, and nothing ordered yet."""

    def mend(room: MachineRoom) -> None:
        for bmc in room.bmcs.values():
            bmc.faults = BmcFaults()
            bmc.node.node = VirtualNode(room.plan.node_class, since_s=bmc.node.clock())
            bmc.orders.clear()

    served.do(mend)
    return served


@pytest.fixture
def site(room: ServedRoom, tmp_path: Path) -> Path:
    """The inventory of that room, and settings that name it."""
    password = tmp_path / "bmc.password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    guids = room.do(lambda room: {name: str(bmc.guid) for name, bmc in room.bmcs.items()})
    enrolled = "\n".join(f'{name} = {{ identity = "{guid}", date = "2026-11-21" }}' for name, guid in guids.items())
    file = tmp_path / "inventory.toml"
    file.write_text(SITE.format(plan=room.plan, bmcs=",".join(room.plan.bmc_hosts), enrolled=enrolled))
    return file


def settings_file(site: Path, mode: str) -> Path:
    file = site.with_name("offpeak.toml")
    agent = f'[agent]\nmode = "{mode}"\nnodes = "n[1-4]"\nstate_folder = "{site.parent}"\n'
    ledger = f'[ledger]\nurl = "sqlite:///{site.parent}/ledger.sqlite"\n'
    file.write_text(f'{agent}{ledger}[hardware]\ninventory = "{site}"\n')
    return file


def orders(room: ServedRoom, node: str) -> list[int]:
    return room.do(lambda room: list(room.bmcs[node].orders))


def test_nodes_that_are_alike_are_one_line(room: ServedRoom, site: Path, offpeak: Callable[..., Done]) -> None:
    room.do(lambda room: room.nodes["n2"].hard_off())
    room.do(lambda room: setattr(room.bmcs["n4"], "faults", BmcFaults(garbage=True)))
    done = offpeak("nodes", "--inventory", site)
    assert done.returncode == 0
    rows = [row.split() for row in done.stdout.splitlines()]
    assert rows[1][:3] == ["n[1,3]", "on", "400"]
    assert rows[2][:2] == ["n2", "off"]
    assert rows[3][:2] == ["n4", "unknown"]
    assert "4 nodes: 1 off, 2 on, 1 unknown; " in done.stdout
    assert len(offpeak("nodes", "--each", "--inventory", site).stdout.splitlines()) == 7


def test_ages_are_those_of_the_agents_clock(site: Path, offpeak: Callable[..., Done]) -> None:
    config = settings_file(site, "advise")
    config.write_text(config.read_text().replace("[agent]", f'[agent]\nsocket = "{site.parent}/agent.sock"'))
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{site.parent}/ledger.sqlite"))
    ledger.ready()
    ledger.write_states([NodeStateRecord("n1", AT_S - 540.0, "on", "on", "scheduler")])
    assert ledger.close() == 0
    queries = (("nodes", "n1", "--config", config), ("nodes", "n1", "show", "--config", config))
    with agent_socket(site.parent / "agent.sock") as agent:
        agent.published = replace(PUBLISHED, now_unix_s=float(AT_S))
        table, lines = (offpeak(*query).stdout for query in queries)
        assert " 9 min " in table
        assert "state:     on, for 9 min, by scheduler\n" in lines
        agent.published = None
        assert " 9 min " not in offpeak(*queries[0]).stdout
    assert " 9 min " not in offpeak(*queries[0]).stdout


MIXED = {"n1": ("64 cores, 256 GiB", "p1,p10,p2"), "n2": ("32 cores, 512 GiB, 4 a100 GPUs", "gpu")}
MIXED |= {"n3": MIXED["n1"]}


@pytest.fixture
def mixed_agent(site: Path) -> Iterator[Path]:
    """Settings whose agent knows types and partitions of three of the four nodes."""
    config = settings_file(site, "advise")
    config.write_text(config.read_text().replace("[agent]", f'[agent]\nsocket = "{site.parent}/agent.sock"'))
    nodes = tuple(
        NodeStatus(name, "on", "up", "", None, False, None, 0.0, "", "", False, *place) for name, place in MIXED.items()
    )
    with agent_socket(site.parent / "agent.sock") as agent:
        agent.snapshot = StatusSnapshot(PUBLISHED, "UTC", 0.0, 0.0, nodes=nodes)
        yield config


def test_nodes_of_several_types_begin_with_a_row_for_each_type(
    room: ServedRoom, mixed_agent: Path, offpeak: Callable[..., Done]
) -> None:
    room.do(lambda room: room.nodes["n3"].hard_off())
    lines = [re.split("  +", line.strip()) for line in offpeak("nodes", "--config", mixed_agent).stdout.splitlines()]
    assert lines[:5] == [
        ["type", "partitions", "nodes", "on", "off"],
        ["64 cores, 256 GiB", "p[1-2,10]", "2", "1", "1"],
        ["32 cores, 512 GiB, 4 a100 GPUs", "gpu", "1", "1"],
        ["unknown", "1", "1"],
        [""],
    ]
    assert [line[:4] for line in lines[5:9]] == [
        ["nodes", "type", "partitions", "state"],
        ["n1", "64 cores, 256 GiB", "p[1-2,10]", "on"],
        ["n3", "64 cores, 256 GiB", "p[1-2,10]", "off"],
        ["n2", "32 cores, 512 GiB, 4 a100 GPUs", "gpu", "on"],
    ]
    assert lines[9][:2] == ["n4", "on"]


def test_nodes_are_chosen_by_type_and_by_partition(mixed_agent: Path, offpeak: Callable[..., Done]) -> None:
    def chosen(*options: str) -> list[str]:
        output = offpeak("nodes", "--json", "--config", mixed_agent, *options).stdout
        return [row["node"] for row in json.loads(output)]

    assert chosen("--type", "A100") == ["n2"]
    assert chosen("--partition", "p10") == ["n1", "n3"]
    assert chosen("n[2-3]", "-p", "p1", "--type", "64 cores") == ["n3"]
    refused = offpeak("nodes", "--config", mixed_agent, "--partition", "p3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no node is in a partition 'p3'\n  hint: known: gpu, p1, p10, p2" in refused.stderr
    refused = offpeak("nodes", "--config", mixed_agent, "--type", "h200")
    assert "hint: types: 32 cores, 512 GiB, 4 a100 GPUs; 64 cores, 256 GiB" in refused.stderr
    refused = offpeak("nodes", "--config", mixed_agent, "--type", "a100", "-p", "p1")
    assert "no node of partition p1 has a type with 'a100'" in refused.stderr
    refused = offpeak("nodes", "n4", "--config", mixed_agent, "-p", "gpu")
    assert "neither agent nor scheduler reports them" in refused.stderr


def test_without_an_agent_the_scheduler_reports_types_and_partitions(
    site: Path, offpeak: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = (node_of("n1", cpus=64, memory_mib=256 << 10), node_of("n2", cpus=8, memory_mib=512, gpus=(("", 1),)))
    scheduler = Mock(view=lambda: SchedulerView(0, (), nodes, ()))
    monkeypatch.setattr("offpeak.ui.nodes.nodes.scheduler_of", lambda _: scheduler)
    rows = json.loads(offpeak("nodes", "--json", "--inventory", site).stdout)
    assert [(row["node_type"], row["partitions"]) for row in rows] == [
        ("64 cores, 256 GiB", "batch"),
        ("8 cores, 512 MiB, 1 GPU", "batch"),
        ("", ""),
        ("", ""),
    ]


def test_nodes_as_json(site: Path, offpeak: Callable[..., Done]) -> None:
    (row,) = json.loads(offpeak("nodes", "n1", "--json", "--inventory", site).stdout)
    assert (row["node"], row["state"], row["desired"], row["since_unix_s"]) == ("n1", "on", "", None)
    assert row["watts"] > 0


def test_a_node_is_shown(site: Path, offpeak: Callable[..., Done]) -> None:
    shown = offpeak("nodes", "n1", "show", "--inventory", site).stdout
    assert "state:     on\n" in shown
    assert "sleeps by: soft_off\n" in shown
    assert json.loads(offpeak("nodes", "n1", "show", "--json", "--inventory", site).stdout)["node"] == "n1"


def test_shadow_refuses_in_one_line_that_names_the_setting(
    room: ServedRoom, site: Path, offpeak: Callable[..., Done]
) -> None:
    room.do(lambda room: room.nodes["n1"].hard_off())
    done = offpeak("nodes", "n1", "wake", "--config", settings_file(site, "shadow"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "offpeak: error: n1: on is only recorded in mode shadow (rule mode)",
        '  hint: set mode = "advise" below [agent], and what an admin orders is done',
    ]
    assert orders(room, "n1") == []


def test_wakes_by_hand(room: ServedRoom, site: Path, offpeak: Callable[..., Done]) -> None:
    room.do(lambda room: room.nodes["n1"].hard_off())
    done = offpeak("nodes", "n1", "wake", "--config", settings_file(site, "advise"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("n1: on after ")
    assert orders(room, "n1") == [1]
    assert offpeak("nodes", "n1", "wake", "--config", settings_file(site, "advise")).stdout.startswith(
        "n1: on already\n"
    )


@pytest.mark.parametrize(("action", "what"), [("hold", "held"), ("release", "released")])
def test_a_hold_that_a_running_agent_does_not_confirm_fails(
    action: str, what: str, site: Path, offpeak: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent hangs: it has its lock and its socket, and answers nothing."""
    monkeypatch.setattr(node_orders, "CONFIRM_S", 0.2)
    settings = settings_file(site, "active")
    with socket.socket(socket.AF_UNIX) as hangs, exclusive_lock(site.parent), contextlib.chdir(site.parent):
        hangs.bind("agent.sock")
        hangs.listen()
        reason = ("--reason", "fan") if action == "hold" else ()
        settings.write_text(settings.read_text().replace("[agent]\n", '[agent]\nsocket = "agent.sock"\n', 1))
        done = offpeak("nodes", "n1", action, *reason, "--config", settings)
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()
    beginning = f"offpeak: error: n1: is written as {what}, but a running offpeak has not confirmed it: "
    assert error.startswith(beginning)
    assert hint.startswith("  hint: ")


def test_without_a_scheduler_that_says_so_nothing_goes_down(
    room: ServedRoom, site: Path, offpeak: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = offpeak("nodes", "n1", "sleep", "--config", settings_file(site, "active"))
    assert done.returncode == 1
    assert "n1: cannot tell: " in done.stderr
    assert orders(room, "n1") == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("wake", "--depth", "standby"), "--depth does not apply to wake"),
        (("show", "--reason", "x"), "--reason does not apply to show"),
        (("hold",), "a hold needs a reason"),
        (("hold", "--reason", "x", "--until", "1999-01-01T00:00"), "lies in the past"),
        (("sleep", "--depth", "standby"), "n1: its hardware has no standby"),
    ],
)
def test_invalid_node_order_is_refused(
    arguments: tuple[str, ...], error: str, site: Path, offpeak: Callable[..., Done]
) -> None:
    done = offpeak("nodes", "n1", *arguments, "--inventory", site)
    assert done.returncode == 2
    assert error in done.stderr


def test_an_unknown_node(site: Path, offpeak: Callable[..., Done]) -> None:
    assert "has no node n9" in offpeak("nodes", "n9", "release", "--inventory", site).stderr


def execute(
    site: Path, node: str, order: NodeOrder, book: MemoryBook, *, used: str = "", **settings: object
) -> NodeRecord:
    inventory = read_inventory(site)

    async def made() -> NodeRecord:
        wire = Transport(timeout_s=10.0)
        agent = AgentSettings(**{"mode": "active", "nodes": "n[1-4]", "min_on": 1} | settings)  # type: ignore[arg-type]
        made = AdminOrder(inventory, agent, book, wire, lambda nodes: dict.fromkeys(nodes, used), poll_s=0.05)
        try:
            return await execute_order(made, inventory.chosen((node,))[0], order, by="admin jo", reason="test")
        finally:
            await wire.close()

    return asyncio.run(made())


def test_node_goes_off_and_on_through_the_door(room: ServedRoom, site: Path) -> None:
    book = MemoryBook()
    record = execute(site, "n2", NodeOrder.SOFT_OFF, book)
    assert (str(record.observed.state), record.observed.by, record.attempts.refusal) == ("off", "admin jo", None)
    assert book.latest()["n2"].observed == "off"
    assert book.latest()["n2"].why == "admin jo: test"
    assert str(execute(site, "n2", NodeOrder.ON, book).observed.state) == "on"
    assert orders(room, "n2") == [5, 1]
    assert [done.outcome.result for done in book.recent(0) if done.outcome] == ["done", "done"]


@pytest.mark.parametrize(
    ("used", "settings", "rule"),
    [
        ("runs 7", {}, "no_job_now"),
        ("", {"nodes": "n1"}, "opted_in"),
        ("", {"min_on": 4}, "min_on"),
        ("", {"mode": "shadow"}, "mode"),
    ],
)
def test_every_rule_holds_by_hand_too(
    used: str, settings: dict[str, object], rule: str, room: ServedRoom, site: Path
) -> None:
    book = MemoryBook()
    record = execute(site, "n2", NodeOrder.SOFT_OFF, book, used=used, **settings)
    assert record.attempts.refusal is not None
    assert (record.attempts.refusal.rule, orders(room, "n2")) == (rule, [])
    assert [refusal.rule for _, refusal in book.refusals] == [rule]
    assert book.latest()["n2"].desired == ""


def test_a_hold_of_somebody_else(room: ServedRoom, site: Path) -> None:
    book = MemoryBook()
    book.hold("n2", Hold("al", "repair"), 0)
    record = execute(site, "n2", NodeOrder.SOFT_OFF, book)
    assert (str(record.observed.state), orders(room, "n2")) == ("on", [])
    assert book.latest()["n2"].why.count("repair") == 1
    with pytest.raises(BadInput, match="is held by al: repair"):
        book.hold("n2", Hold("jo", "mine"), 0)


def test_a_bmc_that_forgets_is_given_up(room: ServedRoom, site: Path) -> None:
    room.do(lambda room: setattr(room.bmcs["n3"], "faults", BmcFaults(drops_commands=True)))
    site.write_text(site.read_text().replace('"60s"', '"1s"'))
    record = execute(site, "n3", NodeOrder.SOFT_OFF, MemoryBook())
    assert record.fault is not None
    assert (record.fault.what, str(record.observed.state), orders(room, "n3")) == (
        "does not go down",
        "going down",
        [5],
    )


def test_node_command_prints_the_recorded_state(site: Path, offpeak: Callable[..., Done]) -> None:
    config = settings_file(site, "shadow")
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{site.parent}/ledger.sqlite"))
    since_unix_s = time.time() - 100 * 86400
    ledger.write_states(
        [NodeStateRecord(node, since_unix_s, "on", "soft_off", "offpeak", "offpeak: idle") for node in ("n1", "n2")]
    )
    ledger.hold("n3", Hold("al", "repair"), since_unix_s)
    ledger.write_states([NodeStateRecord("n4", since_unix_s, "on", "", "offpeak", "held by jo: fan; offpeak: idle")])
    ledger.hold("n4", Hold("jo", "fan"), since_unix_s)
    assert ledger.close() == 0
    assert offpeak("nodes", "n4", "show", "--config", config).stdout.count("held by jo: fan") == 1
    output = offpeak("nodes", "n[1-3]", "--config", config).stdout
    lines = [" ".join(row.split()) for row in output.splitlines()]
    assert lines[1] == "n[1-2] on soft_off 400 W 100 days offpeak offpeak: idle"
    assert lines[2] == "n3 on 200 W held by al: repair"
    assert ": held by " in offpeak("nodes", "n1", "hold", "--reason", "DIMM", "--config", config).stdout
    assert ": DIMM" in offpeak("nodes", "n1", "--config", config).stdout
    assert "n1: no longer held by " in offpeak("nodes", "n1", "release", "--config", config).stdout
    assert offpeak("nodes", "n1", "release", "--config", config).stdout == "n1: was not held\n"
