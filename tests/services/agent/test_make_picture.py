"""The nodes and prices in the snapshot for the status page."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.door.effect import Hold
from offpeak.model.node_class_file import node_class_named
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.model.step_series import Series
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.plugin.scheduler.node_types import NodePlace
from offpeak.power.lifecycle.node_record import DesiredState, Instant, NodeRecord, ObservedState
from offpeak.predictors.price_forecast import PriceCurve
from offpeak.prices.peak import Peak
from offpeak.services.agent.observer import price_slots
from offpeak.services.agent.reports import find_day_and_month, modelled_w, node_status
from offpeak.services.agent.status import NodeStatus, StatusSnapshot, parse_snapshot, snapshot_json

pytestmark = pytest.mark.quick

SERVER = node_class_named("server")
NOW = Instant(500.0, 1_793_520_000.0)
OFF = SERVER.depths[-1]


def record(state: NodeState, scheduler_state: SchedulerState | None = None) -> NodeRecord:
    return NodeRecord(
        "n1", observed=ObservedState(state, since_unix_s=NOW.unix_s - 60, by="offpeak"), scheduler_state=scheduler_state
    )


@pytest.mark.parametrize(
    ("state", "scheduler_state", "watts"),
    [
        (NodeState.ON, SchedulerState.UP, SERVER.idle_w),
        (NodeState.ON, SchedulerState.BUSY, None),
        (NodeState.ON, None, None),
        (NodeState.OFF, SchedulerState.DOWN, OFF.power_w),
        (NodeState.GOING_DOWN, SchedulerState.DRAINED, OFF.enter.power_w),
        (NodeState.BOOTING, SchedulerState.BOOTS, OFF.leave.power_w),
        (NodeState.UNKNOWN, None, None),
    ],
)
def test_assumed_power_of_a_node(state: NodeState, scheduler_state: SchedulerState | None, watts: float | None) -> None:
    assert modelled_w(record(state, scheduler_state), SERVER) == watts


def test_measured_power_overrides_the_model() -> None:
    off = record(NodeState.OFF)
    measured = node_status(off, NOW, {"n1": 7.5}, SERVER)
    assert (measured.watts, measured.measured, measured.idle_watts) == (7.5, True, SERVER.idle_w)
    assert node_status(off, NOW, {}, SERVER)[4:6] == (OFF.power_w, False)
    assert node_status(off, NOW, {}, None)[4:7] == (None, False, None)


def test_node_status_has_the_reason_and_the_hold() -> None:
    with_desired = replace(
        record(NodeState.ON), desired=DesiredState(NodeOrder.SOFT_OFF, "offpeak", NOW.unix_s, "nobody needs it")
    )
    held = replace(with_desired, hold=Hold("ann", "new fan"))
    output = node_status(held, NOW, {}, SERVER)
    assert (output.desired, output.held, output.why) == (
        "soft_off",
        True,
        "held by ann: new fan; offpeak: nobody needs it",
    )
    silent = replace(record(NodeState.UNKNOWN), observed=ObservedState(problem="no answer in 5 s"))
    assert node_status(silent, NOW, {}, SERVER).why == "no answer in 5 s"
    late = node_status(record(NodeState.ON), NOW, {}, SERVER, overdue_s=900.0)
    assert (late.overdue_s, late.why) == (900.0, "ordered to sleep 15 min ago, and still on")


def test_prices_with_their_range() -> None:
    series = Series(np.array([0, 3600, 7200], np.int64), 10_800, np.array([10.0, 90.0, np.nan]), "EUR/MWh", "forecast")
    peak = np.array([Peak.OFF_PEAK, Peak.ON_PEAK, Peak.UNKNOWN], np.int8)
    curve = PriceCurve(series, peak, ("published", "forecast", "forecast"))
    assert [(slot.low, slot.high) for slot in price_slots(curve)] == [(10.0, 10.0), (90.0, 90.0), (None, None)]
    quantiles = np.array([[10.0, 10.0], [70.0, 120.0], [math.nan, math.nan]])
    slots = price_slots(replace(curve, quantiles=quantiles))
    assert [tuple(slot) for slot in slots] == [
        (0, 10.0, 10.0, 10.0, False, "published", None),
        (3600, 90.0, 70.0, 120.0, True, "forecast", None),
        (7200, None, None, None, None, "forecast", None),
    ]
    carbon = Series(np.array([0, 3600, 7200], np.int64), 10_800, np.array([300.0, np.nan, 210.0]), "g/kWh", "published")
    assert [slot.carbon for slot in price_slots(curve, carbon)] == [300.0, None, 210.0]


def test_snapshot_has_begin_of_day_and_month() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    day_s, month_s = find_day_and_month(datetime(2026, 10, 26, 12, tzinfo=UTC).timestamp(), berlin)
    assert datetime.fromtimestamp(day_s, UTC) == datetime(2026, 10, 25, 23, tzinfo=UTC)
    assert datetime.fromtimestamp(month_s, UTC) == datetime(2026, 9, 30, 22, tzinfo=UTC)


def test_snapshot_is_json_with_its_fields(drawn: StatusSnapshot) -> None:
    output = json.loads(json.dumps(snapshot_json(drawn)))
    assert output["node_fields"] == list(NodeStatus._fields)
    assert [NodeStatus(*row) for row in output["nodes"]] == list(drawn.nodes)
    assert output["published"]["mode"] == drawn.published.mode


def test_the_page_reads_the_same_snapshot(drawn: StatusSnapshot) -> None:
    sent = json.loads(json.dumps(snapshot_json(drawn)))
    assert parse_snapshot(sent) == drawn
    names = [*reversed(sent["node_fields"]), "moon"]
    newer = sent | {"moon": "full", "node_fields": names, "nodes": [[*reversed(row), "full"] for row in sent["nodes"]]}
    assert parse_snapshot(newer) == drawn
    names = sent["node_fields"][: -len(NodeStatus._field_defaults)]
    older = sent | {"node_fields": names, "nodes": [row[: len(names)] for row in sent["nodes"]]}
    (node,) = drawn.nodes
    assert node.node_type
    assert parse_snapshot(older).nodes == (node._replace(node_type="", partitions=""),)
    del older["planned_w"]
    assert parse_snapshot(older).planned_w == ()
    with pytest.raises(ValueError, match="no snapshot: 'held'"):
        parse_snapshot(older | {"node_fields": names[:-1]})


@pytest.mark.parametrize("reply", [None, [], {}, {"published": {}}])
def test_other_json_is_no_snapshot(reply: object) -> None:
    with pytest.raises(ValueError, match="no snapshot"):
        parse_snapshot(reply)


@pytest.fixture
def drawn() -> StatusSnapshot:
    from agent_socket import PUBLISHED

    node = node_status(record(NodeState.OFF), NOW, {}, SERVER, NodePlace("64 cores, 256 GiB", "batch,long"))
    planned_w = ((int(NOW.unix_s), 1450.0), (int(NOW.unix_s) + 900, 2100.0))
    return StatusSnapshot(PUBLISHED, "Europe/Berlin", NOW.unix_s, NOW.unix_s, nodes=(node,), planned_w=planned_w)


def test_a_node_that_is_on_and_lost_for_jobs_says_why_and_what_to_type() -> None:
    left = "DOWN+POWERED_DOWN in the scheduler for 12 min: `scontrol update nodename=n1 state=resume`"
    node = node_status(record(NodeState.ON), NOW, {}, SERVER, NodePlace("", "batch", left))
    assert node.left == left
    assert node.why.startswith(left)
