"""A tiny soak of stops: that it runs, and that its witness finds things. The soak itself takes minutes: `make soak`."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from needed_programs import need
from served_room import planned

from benchmarks.soak_stops.__main__ import figures
from benchmarks.soak_stops.run import soaked
from benchmarks.soak_stops.site import NOTICES_S, SHUTDOWN_S, SiteScheduler, StopsPlan
from benchmarks.soak_stops.witness import TAKES_EFFECT_S, WAITS_S, Rules, Witness
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.virtual.machine_room import MachineRoom, build_room
from offpeak.sim_backend.virtual.rmcp.server import HARD_OFF, ON, SOFT_OFF
from offpeak.sim_backend.virtual.room_plan import room_logins


def test_a_tiny_soak_finds_nothing() -> None:
    need(("ipmitool",), packages="ipmitool")
    found = soaked(StopsPlan(nodes=8, cycles=8, run_s=(2.0, 5.0), most_real_s=90.0))
    assert found.broken == []
    assert [figure for figure in figures(found) if not figure.reached] == []
    assert found.events["SIGTERM"] > 0


@dataclass
class Stage:
    """Two nodes, their scheduler and a witness, on a clock that the test sets."""

    room: MachineRoom
    now_s: float = 0.0
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        for node in self.room.nodes.values():
            node.clock = self.clock
        self.scheduler = SiteScheduler(self.room, self.clock, lambda _: None)
        self.witness = Witness(self.scheduler, self.rules, self.clock, self.clock)
        self.witness.watch(self.room)

    def clock(self) -> float:
        return self.now_s

    def order(self, node: str, order: int) -> None:
        """Let an order reach a BMC."""
        self.room.bmcs[node].orders.append(order)

    def goes_dark(self, node: str) -> None:
        """Take a node's power."""
        self.room.nodes[node].soft_off()

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.scheduler.follow()
        self.witness.look()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(build_room(planned("n[1-2]"), room_logins(tmp_path).bmc))


def test_a_node_that_is_switched_off_under_a_job_is_found(stage: Stage) -> None:
    stage.scheduler.submit(1, 600.0)
    stage.passes(1.0)
    stage.order("n1", SOFT_OFF)
    stage.order("n2", SOFT_OFF)
    assert stage.witness.broken == ["n1: soft_off: job 1 runs there"]


def test_the_scheduler_notices_a_dead_node_late_and_the_job_there_is_lost(stage: Stage) -> None:
    stage.goes_dark("n1")
    stage.goes_dark("n2")
    stage.passes(NOTICES_S - SHUTDOWN_S)
    assert [node.alive for node in stage.scheduler.cluster.nodes.values()] == [True, True]
    stage.scheduler.submit(1, 600.0)
    stage.passes(1.0)
    assert stage.witness.broken == ["job 1 ran on n1, which had no power"]
    stage.passes(NOTICES_S)
    assert [node.alive for node in stage.scheduler.cluster.nodes.values()] == [False, False]


def test_a_job_that_waits_for_dark_nodes_is_found_once(stage: Stage) -> None:
    stage.goes_dark("n1")
    stage.passes(1.0)
    stage.passes(NOTICES_S)
    stage.scheduler.submit(2, 600.0)
    stage.passes(WAITS_S)
    assert stage.witness.broken == []
    stage.passes(1.0)
    stage.passes(1.0)
    assert len(stage.witness.broken) == 1
    assert stage.witness.broken[0].startswith("job 1 waits since 120 min: no node was given to it; 0 are closed")


def test_an_order_that_the_mode_forbids_is_found(tmp_path: Path) -> None:
    cases: list[tuple[str, float, list[str]]] = [
        ("active", 0.0, []),
        ("shadow", 100.0, []),
        ("shadow", 100.0 - 2 * TAKES_EFFECT_S, ["n1: soft_off: the mode is shadow"]),
        ("advise", 0.0, ["n1: soft_off: the mode is advise"]),
    ]
    for mode, since_s, broken in cases:
        stage = Stage(build_room(planned("n[1-2]"), room_logins(tmp_path).bmc))
        stage.now_s = 100.0
        stage.rules.mode, stage.rules.mode_since_s = mode, since_s
        stage.order("n1", ON)
        stage.order("n1", SOFT_OFF)
        assert stage.witness.broken == broken


def test_an_order_to_a_held_node_and_one_that_cuts_the_power_are_found(stage: Stage) -> None:
    stage.rules.held.add("n1")
    stage.order("n1", SOFT_OFF)
    stage.order("n2", HARD_OFF)
    assert stage.witness.broken == [
        "n1: soft_off: an admin holds it",
        "n2: hard_off: the order is not one that was asked for",
    ]


def test_wakes_within_a_minute_are_counted(stage: Stage) -> None:
    for at_s in (0.0, 30.0, 59.0, 100.0):
        stage.now_s = at_s
        stage.order("n1", ON)
    assert stage.witness.most_wakes == 3


def test_a_node_that_boots_counts_as_a_cycle(stage: Stage) -> None:
    stage.goes_dark("n1")
    stage.passes(1.0)
    stage.passes(600.0)
    stage.room.nodes["n1"].on()
    stage.passes(600.0)
    assert stage.scheduler.cycles == 1
    stage.scheduler.submit(2, 60.0)
    stage.passes(1.0)
    assert [job.state for job in stage.scheduler.cluster.jobs.values()] == [JobState.RUNNING]
