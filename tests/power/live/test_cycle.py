"""One node goes through a whole cycle before others are put to sleep, and what follows if the scheduler fails it."""

from dataclasses import replace

import pytest
from scheduler_values import NOW, NOW_S, node_of, record_of
from small_site import changes_of, cluster_snapshot, planned, site_of

from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.live.cycle_watch import (
    BOUND_S,
    UNABLE_S,
    CycleStep,
    CycleWatch,
    describe_cycle,
    parse_watch,
    watch_to_json,
)
from offpeak.power.live.power_plan import PowerMemory

pytestmark = pytest.mark.quick

NAMES = ("n01", "n02", "n03", "n04")
OURS = {"closed": True, "reason": "offpeak: idle"}
TERMS = "Slurm 25.11 on head1 since noon"
NEW, FIRST = CycleWatch(is_proven=False), CycleWatch(is_proven=False, is_first=True)
CLOSED, WOKEN = OURS, {"power": PowerState.POWERING_ON}
OFF, POWERED_DOWN = (OURS, NodeState.OFF), ({"power": PowerState.OFF}, NodeState.OFF)
OPEN = ({}, NodeState.ON)


class Stage:
    """Four nodes that have been idle for long, and the plans about them."""

    def __init__(self, watch: CycleWatch, *, terms: str | None = TERMS, idle_s: int = 840) -> None:
        self.site = replace(site_of(), power_terms=terms)
        self.nodes = {name: node_of(name, idle_since_s=NOW_S - idle_s) for name in NAMES}
        self.records = {name: record_of(name) for name in NAMES}
        self.memory, self.seconds, self.refused = PowerMemory(watch=watch), 0, {}

    def put(self, node: str, given, state: NodeState) -> None:
        """Let the node look so from now on."""
        self.nodes[node] = node_of(node, **({"idle_since_s": NOW_S} | given))
        self.records[node] = record_of(node, state)

    def plan(self, seconds: int = 10):
        """Return the plan so much later."""
        self.seconds += seconds
        now = Instant(NOW.monotonic_s + self.seconds, NOW.unix_s + self.seconds)
        records = {
            name: replace(each, observed=replace(each.observed, at_s=now.monotonic_s, at_unix_s=now.unix_s))
            for name, each in self.records.items()
        }
        snapshot = cluster_snapshot(self.nodes.values(), records=records, now=now, refused=self.refused)
        plan = planned(snapshot, self.site, self.memory)
        self.memory = plan.memory
        return plan

    @property
    def watch(self) -> CycleWatch:
        return self.memory.watch

    @property
    def text(self) -> str:
        return describe_cycle(self.watch).text

    def go_down(self, node: str) -> None:
        """Let the node go off, and the scheduler count it as powered down."""
        for given, state in ((CLOSED, NodeState.GOING_DOWN), OFF, POWERED_DOWN):
            self.put(node, given, state)
            self.plan()


def test_after_a_change_of_the_scheduler_one_node_goes_through_a_cycle_before_the_others_sleep() -> None:
    stage = Stage(CycleWatch(terms="Slurm 24.11 on head1 since noon", report="an older one"))
    assert changes_of(stage.plan()) == {"n04": "close"}
    assert not stage.watch.is_proven
    stage.go_down("n04")
    # The agent itself has the scheduler wake it, and nobody else sleeps meanwhile.
    assert changes_of(stage.plan(100)) == {"n04": "power_up"}
    stage.put("n04", WOKEN, NodeState.BOOTING)
    assert changes_of(stage.plan()) == {}
    stage.put("n04", *OPEN)
    assert sorted(changes_of(stage.plan()).values()) == ["close"] * 3
    assert stage.text.startswith("n04 went through a whole cycle on ")
    assert stage.text.endswith(f"open to jobs after 2 min; {TERMS}")
    assert parse_watch(watch_to_json(stage.watch)) == stage.watch


def test_at_a_new_site_no_node_sleeps_before_the_one_that_an_admin_names_was_woken_by_a_job() -> None:
    stage = Stage(FIRST)
    assert changes_of(stage.plan()) == {}
    assert describe_cycle(stage.watch).is_problem
    stage.memory = replace(stage.memory, watch=stage.watch.begin("n02", "admin jo", NOW_S))
    assert changes_of(stage.plan()) == {"n02": "close"}
    stage.go_down("n02")
    # A job must come.
    assert (changes_of(stage.plan(100)), stage.watch.next_step) == ({}, CycleStep.WOKEN)
    stage.put("n02", WOKEN | {"use": NodeUse.USED}, NodeState.BOOTING)
    stage.plan()
    stage.put("n02", {"use": NodeUse.USED}, NodeState.ON)
    assert sorted(changes_of(stage.plan())) == ["n01", "n03", "n04"]
    assert (stage.watch.is_proven, stage.watch.is_first) == (True, False)


@pytest.mark.parametrize(
    ("given", "state", "seconds", "problem"),
    [
        ({"use": NodeUse.USED}, NodeState.ON, 10, "a job got the node first"),
        ({}, NodeState.ON, BOUND_S[CycleStep.CLOSED] + 1, "it was not closed to jobs within 2 min"),
    ],
)
def test_a_cycle_that_a_job_or_the_door_prevents_says_nothing_about_the_scheduler(
    given, state, seconds, problem
) -> None:
    stage = Stage(FIRST)
    stage.plan()
    stage.memory = replace(stage.memory, watch=stage.watch.begin("n02", "admin jo", NOW_S + 10))
    stage.put("n02", given, state)
    stage.plan(seconds)
    assert (stage.watch.problem, stage.watch.failures) == (problem, 0)
    assert stage.text.startswith(f"n02 did not go through a whole cycle: {problem}; no node is put to sleep before")


def test_a_node_for_which_no_job_comes_is_woken_again() -> None:
    stage = Stage(FIRST)
    stage.plan()
    stage.memory = replace(stage.memory, watch=stage.watch.begin("n02", "admin jo", NOW_S + 10))
    stage.go_down("n02")
    assert changes_of(stage.plan(BOUND_S[CycleStep.WOKEN] + 1)) == {"n02": "power_up"}
    assert "no job for it came within 10 min" in stage.text


@pytest.mark.parametrize("fault", ["refused", "not woken", "not by its program"])
def test_if_the_scheduler_fails_a_cycle_all_nodes_that_sleep_are_woken_by_their_bmcs(fault) -> None:
    stage = Stage(CycleWatch(terms=TERMS))
    for name in ("n01", "n02"):
        stage.put(name, *POWERED_DOWN)
    stage.plan()
    stage.site = replace(stage.site, power_terms="began anew")
    # Two nodes were on their way to sleep, and stay up.
    assert changes_of(stage.plan()) == {}
    assert changes_of(stage.plan()) == {"n04": "close"}
    stage.go_down("n04")
    match fault:
        case "refused":
            stage.put("n04", *OFF)
            stage.refused = {"n04": "power_down: Invalid node state specified"}
            plan = stage.plan()
            problem, off = "it refuses power_down: Invalid node state specified (n04)", ("n01", "n02", "n04")
        case "not woken":
            stage.plan()
            plan = stage.plan(BOUND_S[CycleStep.WOKEN] + 1)
            problem, off = "it does not wake n04", ("n01", "n02", "n04")
        case _:
            stage.put("n04", *OPEN)
            plan = stage.plan()
            problem = "n04 came up, and the scheduler did not call the program that wakes nodes"
            off = ("n01", "n02")
    names = {2: "n[01-02]", 3: "n[01-02,04]"}[len(off)]
    start = f"{len(off)} nodes are off that the scheduler cannot wake: {names}: {problem}; woken by their BMCs"
    assert stage.text.startswith(start)
    ordered = {name for name, desired in plan.desired_states.items() if desired and desired.order is NodeOrder.ON}
    assert ordered == set(off)
    # None sleeps again, and after the pause one is watched alone.
    for name in NAMES:
        stage.put(name, {"idle_since_s": NOW_S - 840}, NodeState.ON)
    stage.refused = {}
    assert changes_of(stage.plan(590)) == {}
    assert list(changes_of(stage.plan(20)).values()) == ["close"]


def test_nodes_are_woken_once_the_schedulers_power_saving_is_off_for_long() -> None:
    stage = Stage(CycleWatch(terms=TERMS))
    stage.put("n01", *POWERED_DOWN)
    stage.plan()
    stage.site = replace(stage.site, unable="its power saving is off")
    assert stage.plan().desired_states["n01"].order is NodeOrder.SOFT_OFF
    plan = stage.plan(UNABLE_S + 1)
    assert plan.desired_states["n01"].order is NodeOrder.ON
    assert "1 node is off that the scheduler cannot wake: n01: its power saving is off" in stage.text


def test_a_cycle_ends_when_the_scheduler_begins_anew_or_wakes_the_node_while_no_agent_runs() -> None:
    stage = Stage(FIRST)
    stage.plan()
    stage.memory = replace(stage.memory, watch=stage.watch.begin("n02", "admin jo", NOW_S))
    stage.go_down("n02")
    away = replace(stage.memory, nodes={})
    stage.site = replace(stage.site, power_terms="other settings")
    stage.plan()
    assert stage.watch.problem == "the scheduler began anew, or its settings changed"
    stage.site, stage.memory = replace(stage.site, power_terms=TERMS), away
    stage.put("n02", *OPEN)
    stage.plan()
    assert (stage.watch.problem, stage.watch.failures) == ("it was woken while the agent was down", 0)
