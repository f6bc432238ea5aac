"""A sweep of a collector counts once, at its own time, from its own devices, and only by clocks that agree."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from offpeak.errors import BadInput, BadInventory
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.power.meters.plausibility import find_draw_bound
from offpeak.power.meters.port import Reading
from offpeak.services.accounts.metering import MeteredSite, Pace
from offpeak.services.agent.accounting_loops import MeterLoop, MeterSection
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.collectors import MOST_LATE_S, MeterReport, Sweep
from offpeak.settings.ledger import LedgerSettings

AT_S = 1_794_490_200.0
INVENTORY = """
[credentials.bmc]
user = "u"
password_file = "token"
[hardware.compute]
driver = "ipmi"
credential = "bmc"
[[machines]]
nodes = "n[1-4]"
hardware = "compute"
bmc = "192.0.2.[1-4]"
[[machines]]
nodes = "b[1-2]"
hardware = "compute"
bmc = "192.0.2.[11-12]"
enclosure = "chassis"
[pdus.p1]
host = "192.0.2.21"
family = "apc"
credential = "bmc"
outlets = { "1" = "n1", "2" = "chassis" }
[pdus.p2]
host = "192.0.2.22"
family = "apc"
credential = "bmc"
outlets = { "1" = "n3" }
"""
EAST = '[collectors.east]\nnodes = "n[3-4]"\npdus = "p2"\ncredential = "bmc"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def inventory(folder: Path, *more: str) -> Inventory:
    file = folder / "inventory.toml"
    file.write_text("\n".join((INVENTORY, *more)))
    return read_inventory(file)


class Head:
    """A head node whose clock is set, and the ledger behind it."""

    def __init__(self, folder: Path) -> None:
        self.now_s, self.folder = AT_S, folder
        self.inventory = inventory(folder, EAST)
        self.start()

    def start(self) -> None:
        """Start the meter loop as after a crash: with nothing but the ledger."""
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{self.folder}/ledger.sqlite"))
        self.problem_log = ProblemLog()
        off = find_draw_bound(bundled_node_class("server"), NodeState.OFF)
        site = MeteredSite(lambda _: off, self.inventory.enclosure_of)
        section = MeterSection(tuple, Pace(10.0, 5.0), site, inventory=self.inventory)
        self.loop = MeterLoop(lambda: section, self.ledger, self.problem_log, lambda: self.now_s, lambda: self.now_s)

    def post(self, sweep: Sweep | None, token: str = "secret", name: str = "east") -> dict[str, Any]:
        request: dict[str, Any] = {"collector": name, "token": token}
        return asyncio.run(self.loop.receive_sweep(request | ({"sweep": asdict(sweep)} if sweep else {})))

    def problems(self) -> tuple[str, ...]:
        asyncio.run(self.loop.round())
        return self.problem_log.problems

    def energy_j(self) -> dict[tuple[str, str], float]:
        """Return the energy in the ledger by meter and node, by the readings and by the quarter-hours alike."""
        self.ledger.settle()
        found = []
        with closing(sqlite3.connect(self.folder / "ledger.sqlite")) as ledger:
            for table in ("readings", "quarters"):
                query = f"select meter, node, sum(energy_j) from {table} join series on number = series group by 1, 2"
                found.append({(meter, node): round(joules or 0.0, 3) for meter, node, joules in ledger.execute(query)})
        assert found[0] == found[1]
        return found[0]


@pytest.fixture
def head(folder: Path) -> Iterator[Head]:
    head = Head(folder)
    yield head
    head.ledger.close()


def sweep(at_s: float, power_w: float | None = 20.0, *, node: str = "n3", sent_s: float | None = None) -> Sweep:
    reading = Reading(node, "dcmi", "total", power_w, at_s - 0.5, node=node)
    return Sweep(at_s, at_s if sent_s is None else sent_s, (MeterReport(node, "dcmi", (reading,)),))


def test_a_sweep_counts_at_its_own_time_and_once(head: Head) -> None:
    for at_s in (AT_S, AT_S + 10, AT_S + 20):
        head.now_s = at_s + 1
        assert head.post(sweep(at_s)) == {"sweep": "counted"}
    assert head.loop.node_watts == {"n3": 20.0}
    assert head.post(sweep(AT_S + 20, sent_s=AT_S + 21)) == {"sweep": "counted"}
    repeated = head.post(sweep(AT_S + 10, sent_s=AT_S + 21))
    assert repeated["sweep"] == "refused"
    assert "its clock went back, or this is a repetition" in repeated["why"]
    assert head.energy_j() == {("n3", "n3"): 400.0}


def test_sweeps_that_waited_for_a_head_node_count_at_their_own_time(head: Head) -> None:
    head.post(sweep(AT_S))
    head.ledger.close()
    head.start()
    head.now_s = AT_S + 3600
    for at_s in range(int(AT_S) + 10, int(AT_S) + 3600, 10):
        # The node is off by now: that says nothing of the time when it drew 300 W.
        assert head.post(sweep(at_s, 300.0, sent_s=head.now_s)) == {"sweep": "counted"}
    assert head.energy_j() == {("n3", "n3"): 300.0 * 3580}
    assert head.loop.node_watts == {"n3": 300.0}
    head.now_s += 60
    assert head.loop.node_watts == {}
    old = head.post(sweep(AT_S, sent_s=head.now_s))
    assert old["sweep"] == "refused"


def test_nothing_of_the_time_before_the_first_post_counts(head: Head) -> None:
    assert head.post(sweep(AT_S - 600, sent_s=AT_S))["sweep"] == "refused"
    head.post(sweep(AT_S))
    head.now_s = AT_S + MOST_LATE_S + 20
    too_late = head.post(sweep(AT_S + 10, sent_s=head.now_s))
    assert "is too late to be counted" in too_late["why"]


@pytest.mark.parametrize(("skew_s", "says"), [(47.0, "47 s ahead of"), (-3600.0, "3,600 s behind")])
def test_a_clock_that_is_wrong_is_named_and_counts_nothing(head: Head, skew_s: float, says: str) -> None:
    head.post(sweep(AT_S))
    refused = head.post(sweep(AT_S + skew_s))
    assert refused["sweep"] == "refused"
    assert f"its clock is {says} that of the agent" in refused["why"]
    assert any(line.startswith("collector east: its post was refused: its clock is") for line in head.problems())
    head.now_s += 10
    head.post(sweep(AT_S + 10))
    assert head.problems() == ()


def test_both_clocks_were_in_the_future(head: Head) -> None:
    head.now_s = AT_S + 86_400
    head.post(sweep(AT_S + 86_400))
    head.now_s = AT_S
    assert head.post(sweep(AT_S)) == {"sweep": "counted"}


def reading(meter: str, node: str | None, **changes: Any) -> MeterReport:
    return MeterReport(meter, "snmp", (replace(Reading(meter, "snmp", "x", 9.0, AT_S - 1, node=node), **changes),))


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (reading("n1", "n1"), "none of its devices"),
        (reading("n3", "n1"), "none of its devices"),
        (reading("p2", "n4"), "none of its devices"),
        (reading("p1", "n1"), "none of its devices"),
        (replace(reading("n1", "n3"), meter="n3"), "none of its devices"),
        (reading("n3", "n3", at_unix_s=AT_S + 1), "of another time"),
        (reading("n3", "n3", at_unix_s=AT_S - 900), "of another time"),
        (reading("n3", "n3", at_unix_s=float("nan")), "of another time"),
        (reading("n3", "n3", power_w=float("inf")), "is not a number"),
        (reading("n3", "n3", holds_s=1e9), "is not a number"),
    ],
)
def test_a_forged_sweep_counts_nothing(head: Head, report: MeterReport, says: str) -> None:
    refused = head.post(Sweep(AT_S, AT_S, (report,)))
    assert refused["sweep"] == "refused"
    assert says in refused["why"]
    assert head.loop.node_watts == {}


def test_its_pdu_and_its_nodes_count(head: Head) -> None:
    outlet = Reading("p2", "snmp", "outlet 1", 25.0, AT_S - 1, node="n3")
    reports = (MeterReport("p2", "snmp", (outlet,)), *sweep(AT_S).reports, MeterReport("n4", "dcmi", error="silent"))
    assert head.post(Sweep(AT_S, AT_S, reports)) == {"sweep": "counted"}
    assert head.loop.node_watts == {"n3": 25.0}


def test_tokens(head: Head, folder: Path) -> None:
    assert head.post(None) == {"sweep": "awaited"}
    for token, name in (("wrong", "east"), ("", "east"), ("secret", "west")):
        with pytest.raises(BadInput, match="or not its token"):
            head.post(sweep(AT_S), token, name)
    (folder / "token").chmod(0o644)
    with pytest.raises(BadInput, match="or not its token"):
        head.post(sweep(AT_S))


def test_a_silent_collector_is_named_and_its_power_is_unknown(head: Head) -> None:
    head.post(sweep(AT_S))
    head.now_s = AT_S + 30
    assert head.problems() == ()
    head.now_s = AT_S + 31
    assert head.problems() == (
        "collector east: silent since 2026-11-12T13:30:00Z: the power of 2 nodes and 1 PDU is not known",
    )
    assert (head.loop.node_watts, head.loop.watts) == ({}, None)


def test_a_collector_that_has_left_the_inventory_is_no_problem(head: Head) -> None:
    head.now_s = AT_S + 31
    assert "collector east: silent since" in head.problems()[0]
    section = replace(head.loop._section(), inventory=replace(head.inventory, collectors=()))
    head.loop._section = lambda: section
    assert head.problems() == ()


def test_a_meter_has_one_reader(head: Head, folder: Path) -> None:
    ours = inventory(folder, EAST)
    assert [machine.node for machine in ours.read_by("east")[0]] == ["n3", "n4"]
    assert [machine.node for machine in ours.read_by(None)[0]] == ["n1", "n2", "b1", "b2"]
    head.post(sweep(AT_S))
    # The settings are read again: from now on the agent itself reads the node.
    head.inventory = replace(head.inventory, collectors=())
    section = head.loop._section()
    head.loop._section = lambda: replace(section, inventory=head.inventory)
    assert head.loop.node_watts == {}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (EAST + EAST.replace("east", "west"), "n3 is there twice|n4 is there twice|p2 is there twice"),
        (EAST.replace("n[3-4]", "n9"), "n9 is in no"),
        (EAST.replace("p2", "p9"), r"there is no \[pdus.p9\]"),
        (EAST.replace("n[3-4]", "b1"), "chassis: is read by collector east and by this host"),
        (EAST.replace("n[3-4]", "b[1-2]"), "chassis: is read by collector east and by this host"),
        (EAST.replace("east", '"e/t"'), "pattern"),
        (EAST + '[pdus.p3]\nhost = "192.0.2.22"\nfamily = "apc"\ncredential = "bmc"\n', "192.0.2.22: is read by"),
    ],
)
def test_an_inventory_in_which_something_would_count_twice_is_refused(folder: Path, more: str, says: str) -> None:
    with pytest.raises(BadInventory, match=says):
        inventory(folder, more)
