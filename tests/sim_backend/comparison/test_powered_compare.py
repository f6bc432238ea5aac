"""Comparisons in which nodes sleep: what the outcomes say of them, and that always-on stays what it was."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.jobs import Trace
from offpeak.model.node_class import NodeClass, Transition
from offpeak.model.node_class_file import bundled_node_class
from offpeak.plugin.capacity.policies import energy_aware, timeout, two_level
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.settings.table import CapacitySettings, Settings
from offpeak.sim_backend.case.replay_case import PreparedCase, fleet_of, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak_studies.workloads.generate import lublin_jobs

JOBS = lublin_jobs(300, machine_size=64, seed=3)
TRACE = Trace("a log", JOBS, 64, None, None, None)
EASY = parse_policy("easy", SchedulingSettings())
SLEEPS = CapacitySettings(policies=("timeout:5min",))


def prepared(**sections: object) -> PreparedCase:
    return prepare(TRACE, replace(Settings(), **sections), start=None)


def failing(node_class: NodeClass, probability: float) -> NodeClass:
    (depth,) = node_class.depths
    leave = Transition(depth.leave.duration_s, depth.leave.power_w, probability)
    return replace(node_class, depths=(replace(depth, leave=leave),))


def test_without_a_node_class_sleep_is_not_mentioned() -> None:
    made = prepared()
    assert made.case.nodes is None
    (outcome,) = compare(made.case, (EASY,)).outcomes
    assert outcome.idle_saved_pct is outcome.asleep_share is outcome.delayed_share is None


def test_nodes_that_are_always_on_are_charged_as_before() -> None:
    with_class = prepared(power=PowerSettings(node_class="sketch")).case
    assert with_class.machine.idle_w == 150
    before = asdict(compare(replace(with_class, nodes=None), (EASY,)).outcomes[0])
    after = asdict(compare(with_class, (EASY,)).outcomes[0])
    assert (after["idle_saved_pct"], after["asleep_share"], after["delayed_share"]) == (0, 0, 0)
    for name in ("cost", "energy_kwh", "idle_energy_kwh", "mean_wait_s", "utilization"):
        assert after[name] == pytest.approx(before[name], rel=1e-12)


def test_a_class_is_assumed_and_reported_where_a_policy_needs_one() -> None:
    made = prepared(capacity=SLEEPS)
    assert made.case.nodes.node_class.name == "server"
    assert any("node class: server (assumed; --node-class says otherwise)" in note for note in made.notes)


def test_the_fleet_knows_load_and_prices_on_the_logs_clock() -> None:
    case = prepared(capacity=SLEEPS).case
    fleet = fleet_of(case)
    assert fleet.nodes == 64
    assert 0 < fleet.load <= 1
    assert fleet.price_at_s[0] <= case.jobs.submit_s[0]
    assert set(fleet.price_per_mwh.tolist()) == {30.0, 90.0}


def test_sleeping_saves_energy_and_is_named_after_both() -> None:
    case = prepared(capacity=SLEEPS).case
    fleet, settings = fleet_of(case), SLEEPS
    policies = (EASY, EASY.on(timeout(fleet, settings, "5min")), EASY.on(two_level(fleet, settings, "50%")))
    first, sleeping, two_levels = compare(case, policies).outcomes
    assert [outcome.policy for outcome in (first, sleeping, two_levels)] == [
        "easy",
        "easy timeout:5min",
        "easy two-level:32",
    ]
    assert sleeping.energy_kwh < first.energy_kwh
    assert 0 < sleeping.captured_pct <= 100
    assert sleeping.cycles_per_node_day > 0
    assert two_levels.asleep_share <= 0.5
    assert 0 < sleeping.delayed_share < 1
    assert sleeping.worst_sleep_delay_s >= sleeping.mean_sleep_delay_s > 0


def test_nodes_go_on_sleeping_until_the_slower_of_two_is_done() -> None:
    """A policy whose last job ends long after the baseline's leaves its nodes as that wants them: asleep."""
    case = prepared(capacity=SLEEPS).case
    fleet = fleet_of(case)
    sleeping, slow = EASY.on(timeout(fleet, SLEEPS, "5min")), EASY.on(two_level(fleet, SLEEPS, "50%"))
    first, other = compare(case, (sleeping, slow)).outcomes
    longer_s = other.until_s - first.until_s
    assert longer_s > 3600
    asleep_w, idle_w = 75 * 15 / 200, 75
    added_kwh = other.baseline.energy_kwh - first.energy_kwh
    at_least, at_most = (watts * 64 * longer_s / 3.6e6 for watts in (asleep_w, idle_w))
    assert at_least <= added_kwh < at_least + 0.05 * at_most


def test_always_on_is_the_policy_itself() -> None:
    from offpeak.plugin.capacity.policies import always_on

    assert EASY.on(always_on(fleet_of(prepared(capacity=SLEEPS).case), SLEEPS, "")) is EASY


def test_passes_per_event_have_no_sleeping_nodes() -> None:
    per_event = parse_policy("easy", SchedulingSettings(passes="event"))
    with pytest.raises(BadInput, match="energy-aware: nodes that sleep need passes once a second"):
        per_event.on(energy_aware(fleet_of(prepared(capacity=SLEEPS).case), SLEEPS, ""))


def all_fail() -> tuple[Policy, PreparedCase]:
    made = prepared(capacity=SLEEPS)
    nodes = replace(made.case.nodes, node_class=failing(bundled_node_class("sketch"), 1.0))
    made = replace(made, case=replace(made.case, nodes=nodes))
    return EASY.on(energy_aware(fleet_of(made.case), SLEEPS, "")), made


def test_jobs_that_find_too_few_nodes_are_counted_and_the_others_have_their_figures() -> None:
    sleeping, made = all_fail()
    comparison = compare(made.case, (EASY, sleeping))
    first, outcome = comparison.outcomes
    assert first.never_started == 0
    assert 0 < outcome.never_started < len(JOBS)
    assert outcome.mean_wait_s >= 0
    assert np.count_nonzero(comparison.runs[1].schedule.start_s < 0) == outcome.never_started


def test_a_job_that_takes_no_time_has_figures() -> None:
    jobs = replace(JOBS.take(np.arange(1)), runtime_s=np.zeros(1, dtype=np.int64))
    made = prepare(replace(TRACE, jobs=jobs), replace(Settings(), capacity=SLEEPS), start=None)
    (outcome,) = compare(made.case, (EASY,)).outcomes
    assert outcome.asleep_share == outcome.idle_saved_pct == 0
