"""The text of scontrol about nodes and reservations, in any combination of states."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.plugin.slurm.nodes import nodes_of_json, nodes_of_text, parse_node_state, reservations_of_text

pytestmark = pytest.mark.quick

FLAGS = ["DRAIN", "NOT_RESPONDING", "PLANNED", "MAINT", "RESERVED", "CLOUD"]
FLAGS += ["POWERED_DOWN", "POWERING_UP", "POWER_DOWN", "COMPLETING"]


LINE = (
    b"NodeName=n1 CPUAlloc=0 CPUTot=8 AvailableFeatures=gpu,fast RealMemory=64000 State=IDLE+DRAIN Partitions=a,b "
    b" BootTime=1795216864 LastBusyTime=Unknown OS=Linux 6 #1 SMP CfgTRES=cpu=8 "
    b"Reason=broken = fan [ann@1795285896] Comment=Reason=x State=DOWN Extra=y\n"
)


def test_node_line_is_parsed() -> None:
    (node,) = nodes_of_text(LINE + LINE)
    assert (node.reason, node.reason_by, node.reason_s) == ("broken = fan", "ann", 1_795_285_896)
    assert (node.comment, node.closed, node.closed_by_us) == ("Reason=x State=DOWN", True, False)
    assert (node.cpus, node.memory_mib, node.features, node.partitions) == (8, 64_000, ("gpu", "fast"), ("a", "b"))
    assert (node.boot_s, node.idle_since_s) == (1_795_216_864, None)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("offpeak", True),
        ("offpeak: sleeps", True),
        ("offpeak is broken", False),
        ("see offpeak: x", False),
        ("", False),
    ],
)
def test_owner_of_a_node_reason_is_parsed(reason: str, ours: bool) -> None:
    (node,) = nodes_of_text(f"NodeName=n1 State=IDLE+DRAIN Reason={reason} [root@1795285896]\n".encode())
    assert node.closed_by_us is ours


@pytest.mark.parametrize(
    ("state", "reason", "shown"),
    [
        ("IDLE", "offpeak: sleeps", ""),
        ("IDLE+POWERED_DOWN", "offpeak: sleeps", ""),
        ("IDLE", "look at the fan", "look at the fan"),
        ("DOWN+POWERED_DOWN", "offpeak: sleeps", "offpeak: sleeps"),
    ],
)
def test_reason_of_offpeak_at_an_open_node_is_left_over(state: str, reason: str, shown: str) -> None:
    (node,) = nodes_of_text(f"NodeName=n1 State={state} Reason={reason} [slurm@1795285896]\n".encode())
    assert node.reason == shown
    record = {"name": "n1", "state": state.split("+"), "reason": reason, "alloc_cpus": 0}
    (node,) = nodes_of_json(json.dumps({"nodes": [record], "errors": []}).encode(), source="scontrol")
    assert node.reason == shown


def test_lines_that_go_on_and_fields_that_are_missing() -> None:
    nodes = nodes_of_text(b"NodeName=n1 State=IDLE Reason=two\nlines [a@1] \nNodeName=n2\nNodeName=\xff State=IDLE*\n")
    assert [(node.name, node.reason, node.use) for node in nodes] == [
        ("n1", "two\nlines", NodeUse.FREE),
        ("n2", "", NodeUse.UNKNOWN),
        ("\ufffd", "", NodeUse.FREE),
    ]
    assert nodes_of_text(b"") == nodes_of_text(b"No nodes in the system\n") == ()


@pytest.mark.parametrize(
    ("native_state", "use", "power"),
    [
        ("IDLE", NodeUse.FREE, PowerState.ON),
        ("MIXED+PLANNED", NodeUse.USED, PowerState.ON),
        ("IDLE+COMPLETING+POWER_DOWN", NodeUse.USED, PowerState.OFF_REQUESTED),
        ("IDLE+POWER_UP+POWERED_DOWN", NodeUse.FREE, PowerState.ON_REQUESTED),
        ("MIXED+POWERED_DOWN", NodeUse.USED, PowerState.ON_REQUESTED),
        ("DOWN+POWERED_DOWN+NOT_RESPONDING", NodeUse.FREE, PowerState.OFF),
        ("IDLE+REBOOT_ISSUED", NodeUse.UNKNOWN, PowerState.ON),
        ("FUTURE", NodeUse.UNKNOWN, PowerState.ON),
        ("UNKNOWN+POWER_DOWN", NodeUse.UNKNOWN, PowerState.OFF_REQUESTED),
        ("IDLE+NEW_IN_27_05", NodeUse.UNKNOWN, PowerState.ON),
        ("", NodeUse.UNKNOWN, PowerState.ON),
    ],
)
def test_node_states_are_parsed(native_state: str, use: NodeUse, power: PowerState) -> None:
    parsed = parse_node_state(native_state, False)
    assert (parsed.use, parsed.power) == (use, power)


@given(st.sampled_from(["IDLE", "DOWN", "ALLOCATED", "MIXED"]), st.permutations(FLAGS), st.integers(0, len(FLAGS)))
def test_flags_combine_in_any_order(base: str, flags: list[str], number: int) -> None:
    states = [base, *flags[:number]]
    parsed = parse_node_state("+".join(states), False)
    assert parsed == parse_node_state("+".join(reversed(states)), False)
    assert parsed.closed is ("DRAIN" in states)
    assert parsed.failed is (base == "DOWN")
    assert parsed.responds is ("NOT_RESPONDING" not in states)
    assert parsed.reserved is bool({"MAINT", "RESERVED"} & set(states))
    completes = "COMPLETING" in states and not {"IDLE", "NOT_RESPONDING"} <= set(states)
    assert (parsed.use is NodeUse.USED) is (base in ("ALLOCATED", "MIXED") or completes)
    assert parse_node_state("+".join(states), True).use is NodeUse.USED


def test_reservations() -> None:
    text = (
        b"ReservationName=a StartTime=10 EndTime=20 Nodes=n[1-2],m3 NodeCnt=3 Features=(null) Flags=MAINT,SPEC_NODES\n"
        b"ReservationName=licences StartTime=10 EndTime=20 Nodes=(null) Flags=DAILY\n"
    )
    first, second = reservations_of_text(text)
    assert (first.name, first.start_s, first.end_s, first.maintenance) == ("a", 10, 20, True)
    assert set(first.nodes) == {"n1", "n2", "m3"}
    assert (second.nodes, second.maintenance) == ((), False)
    assert reservations_of_text(b"No reservations in the system\n") == ()
