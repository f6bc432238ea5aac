"""A virtual PDU: its counters are the joules of the nodes on it, and what it says of them is PowerNet-MIB's."""

import math
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.machine_room import RPDU2, UPTIME, PduFaults, VirtualPdu, apc_rows
from offpeak.sim_backend.virtual.node import LiveNode, VirtualNode

pytestmark = pytest.mark.quick

ACTS = ("on", "soft_off", "hard_off", "suspend", "reset", "fail_next")
RECORDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(ACTS), st.floats(0, 500)), max_size=25)
"""Which of three nodes does what, and how long it then lasts [s]."""

DEVICE, PHASE, OUTLET = (*RPDU2, 4, 3, 1), (*RPDU2, 6, 3, 1), (*RPDU2, 9, 4, 3, 1)


@dataclass
class Rack:
    """Three nodes on a PDU of five outlets, and the clock that moves them."""

    loss_factor: float = 1.0
    now_s: float = 0.0
    nodes: list[LiveNode] = field(init=False)
    pdu: VirtualPdu = field(init=False)

    def __post_init__(self) -> None:
        server, chance = VirtualNode(bundled_node_class("server")), random.Random(1)
        self.nodes = [LiveNode(f"n{number}", lambda: self.now_s, chance, server) for number in (1, 2, 3)]
        outlets = dict(enumerate([*self.nodes, None, None], 1))
        self.pdu = VirtualPdu("rack1", lambda: self.now_s, outlets, self.loss_factor)

    def says(self, *oid: int) -> object:
        return apc_rows(self.pdu)[oid]()


@pytest.fixture
def rack() -> Rack:
    return Rack()


@given(RECORDS, st.sampled_from([1.0, 1.08]))
def test_the_joules_of_the_nodes_are_those_of_the_counters(
    events: list[tuple[int, str, float]], loss_factor: float
) -> None:
    rack = Rack(loss_factor)
    for node, act, lasts_s in events:
        getattr(rack.nodes[node], act)()
        rack.now_s += lasts_s
        assert math.isclose(rack.pdu.power_w, loss_factor * sum(each.power_w for each in rack.nodes))
    nodes_j = sum(node.energy_j for node in rack.nodes)
    assert math.isclose(rack.pdu.energy_j, loss_factor * nodes_j, rel_tol=1e-9)


def test_pdu_reports_power(rack: Rack) -> None:
    rack.nodes[0].use(1.0)
    rack.nodes[1].hard_off()
    assert [rack.says(*OUTLET, 7, row) for row in range(1, 6)] == [700, 15, 200, 0, 0]
    assert (rack.says(*DEVICE, 5, 1), rack.says(*PHASE, 7, 1)) == (92, 92)
    assert rack.says(*OUTLET, 6, 1) == 30
    assert rack.says(*OUTLET, 3, 2) == "Outlet 2"


def test_counters_are_in_tenths_of_kilowatt_hours_and_can_be_reset(rack: Rack) -> None:
    rack.now_s = 3600.0 * 10
    assert [rack.says(*OUTLET, 11, row) for row in (1, 5)] == [20, 0]
    assert rack.says(*DEVICE, 9, 1) == 60
    rack.pdu.reset_counters()
    assert rack.says(*DEVICE, 9, 1) == 0
    rack.now_s *= 2
    assert rack.says(*DEVICE, 9, 1) == 60


def test_a_reboot_begins_the_uptime_anew_and_moves_the_rows(rack: Rack) -> None:
    rack.nodes[0].use(1.0)
    rack.now_s = 50.0
    assert rack.says(*UPTIME) == 5000
    rack.pdu.reboot()
    rack.now_s = 51.0
    assert rack.says(*UPTIME) == 100
    assert [rack.says(*OUTLET, 4, row) for row in range(1, 6)] == [2, 3, 4, 5, 1]
    assert [rack.says(*OUTLET, 7, row) for row in range(1, 6)] == [200, 200, 0, 0, 700]


def test_unknown_power_of_a_pdu_is_minus_one(rack: Rack) -> None:
    rack.pdu.faults = PduFaults(sentinel=True)
    assert {rack.says(*DEVICE, 5, 1), rack.says(*DEVICE, 9, 1), rack.says(*OUTLET, 7, 1)} == {-1}
    assert rack.says(*OUTLET, 4, 1) == 1
