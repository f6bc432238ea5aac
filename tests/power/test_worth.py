"""The levers of a site: what each would have saved on its own log."""

import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class import EnclosurePower, break_even_s, scale_node_class
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.request import Chunk, Request
from offpeak.power.capacity import levers as worth
from offpeak.power.capacity.levers import (
    HARDLY_LONGER_S,
    LEVERS,
    Lever,
    LeverMeasurement,
    add_sleeping_nodes,
    take_last_days,
)
from offpeak.settings.agent import AgentSettings
from offpeak.settings.replay import PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.comparison.compare import release_times_s
from offpeak.sim_backend.estimate import SavingsEstimate, estimate_savings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.sample import SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

SETTINGS = Settings(prices=PriceSettings(tariff="on=90EUR/MWh,off=30EUR/MWh,hours=08:00-20:00"))
EASY, GREEDY = (parse_policy(name, SchedulingSettings()) for name in ("easy", "greedy"))
SERVER = bundled_node_class("server")


@pytest.fixture(scope="module")
def estimate() -> SavingsEstimate:
    """The estimate of a few days of the sample."""
    return estimate_savings(read_swf(SAMPLE_LOG), SETTINGS, (EASY, GREEDY), days=6, replays=2)


@pytest.fixture(scope="module")
def measured(estimate: SavingsEstimate) -> tuple[Lever, ...]:
    """Its levers, from two replays of its last three days."""
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(worth, "DAYS", 3)
        return LeverMeasurement(estimate, SETTINGS, (EASY, GREEDY)).measure(2)


def test_a_row_a_policy_of_each_lever(measured: tuple[Lever, ...]) -> None:
    assert [(lever.name, lever.saving.policy if lever.saving else None) for lever in measured] == [
        ("order", "greedy"), *LEVERS, ("peak shaving", None), ("tiers", "T1, 10% of jobs up to 6h"),
        ("tiers", "T2, 30% of jobs up to 24h"), ("node caps", None), ("devices", None), ("place", None)
    ]  # fmt: skip
    assert all(lever.saving is None or lever.saving.capability == lever.name for lever in measured)


def test_order_is_the_estimates_own(estimate: SavingsEstimate, measured: tuple[Lever, ...]) -> None:
    assert [lever.saving for lever in measured if lever.name == "order"] == list(estimate.savings)


def test_sleeping_nodes_save_and_the_note_says_of_which_nodes(measured: tuple[Lever, ...]) -> None:
    timeout = next(lever for lever in measured if lever.saving and lever.saving.policy == "timeout:10min")
    assert timeout.saving is not None
    assert timeout.saving.share_pct.low > 0
    assert timeout.saving.a_year.middle > 0
    assert timeout.replays == 2
    assert timeout.note == (
        "nodes are assumed to sleep like the class server, scaled to 75 W idle; --node-class names another"
    )


def test_where_nearly_all_requests_differ_rounded_memory_gives_the_same_savings() -> None:
    sample = read_swf(SAMPLE_LOG)
    copies = -(-sample.jobs.size // sample.units_per_node) if sample.units_per_node else sample.jobs.size
    requests = tuple(
        Request(("batch",), (Chunk(int(each), 4, 20_000 + number),)) for number, each in enumerate(copies.tolist())
    )
    kinds = (NodeType(32, 64_000), NodeType(32, 128_000))
    cluster = Cluster(
        tuple(Pool(kind, frozenset({"batch"}), 64) for kind in kinds), {"batch": Partition("batch", shared=True)}
    )
    log = replace(sample, jobs=replace(sample.jobs, request=np.arange(len(requests))), requests=requests)
    few = estimate_savings(log, SETTINGS, (EASY, GREEDY), days=4, replays=2, cluster=cluster)
    found = {}
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(worth, "LEVERS", (("sleep", "timeout:10min"),))
        for most in (10_000, 10):
            quick.setattr(worth, "MOST_REQUESTS", most)
            replays = LeverMeasurement(few, SETTINGS, (EASY, GREEDY))
            assert replays.is_wide == (most == 10)
            found[most] = next(lever for lever in replays.measure(4) if lever.name == "sleep")
        quick.setattr(worth, "MOST_WIDE_JOBS", 5)
        unmeasured = LeverMeasurement(few, SETTINGS, (EASY, GREEDY)).measure(2)
    exact, rounded = (lever.saving for lever in found.values())
    assert exact is not None
    assert rounded is not None
    assert rounded.share_pct.middle == pytest.approx(exact.share_pct.middle, abs=0.5)
    assert re.search(r"memory rounded, so \d+ requests differ, not \d+$", found[10].note)
    assert {lever.saving for lever in unmeasured if lever.name in {"sleep", "tiers"}} == {None}
    assert re.fullmatch(r"the last day has \d+ jobs, more than 5, on nodes that differ, .*", unmeasured[-4].note)


def test_the_agent_sleeps_by_what_the_levers_advise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the rules that make jobs wait hardly longer its default saves as much as the best, within chance."""
    monkeypatch.setattr(worth, "LEVERS", tuple(lever for lever in LEVERS if lever[0] == "sleep"))
    month = estimate_savings(read_swf(SAMPLE_LOG), SETTINGS, (EASY, GREEDY), days=worth.DAYS, replays=2)
    found = LeverMeasurement(month, SETTINGS, (EASY, GREEDY)).measure()
    savings = {lever.saving.policy: lever.saving for lever in found if lever.saving and lever.name == "sleep"}
    quick = [saving for saving in savings.values() if saving.wait_is_noise or saving.wait_change_s <= HARDLY_LONGER_S]
    default = savings[AgentSettings().capacity]
    assert default in quick
    assert default.share_pct.high >= max(quick, key=lambda each: each.share_pct.middle).share_pct.low


def test_more_replays_repeat_none_and_change_none(estimate: SavingsEstimate) -> None:
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(worth, "LEVERS", (("sleep", "timeout:10min"),))
        quick.setattr(worth, "DAYS", 2)
        refined = LeverMeasurement(estimate, SETTINGS, (EASY, GREEDY))
        refined.measure(1)
        at_once = LeverMeasurement(estimate, SETTINGS, (EASY, GREEDY)).measure(3)
        assert refined.measure(3) == at_once


def test_order_and_sleep_are_replayed_together(estimate: SavingsEstimate) -> None:
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(worth, "LEVERS", (("sleep", "timeout:10min"),))
        replays = LeverMeasurement(estimate, SETTINGS, (EASY, GREEDY))
        levers = [
            Lever(each.name, each.saving and replace(each.saving, is_noise=each.name == "tiers", wait_is_noise=True))
            for each in replays.measure(2)
        ]
        best = replays.recommend(levers, 2)
    assert best is not None
    assert best.capacity == "timeout:10min"
    alone = {each.saving.policy: each.saving.share_pct.middle for each in levers if each.saving}
    assert best.saving.share_pct.middle >= alone["timeout:10min"]
    if best.queue == "greedy":
        assert best.saving.policy == "greedy timeout:10min"
        assert best.saving.share_pct.middle != pytest.approx(alone["timeout:10min"] + alone["greedy"])


def test_a_job_whose_owner_consents_starts_when_it_is_cheap(estimate: SavingsEstimate) -> None:
    case = estimate.prepared.case
    submit_s = case.jobs.submit_s
    none, some = (release_times_s(case, np.full(len(submit_s), each)) for each in (0, DAY_S))
    assert (none == submit_s).all()
    assert (some >= submit_s).all()
    assert (some <= submit_s + DAY_S).all()
    hours = np.array(
        [datetime.fromtimestamp(at, case.prices.aligned.zone).hour for at in some + case.prices.aligned.offset_s]
    )
    short = (some > submit_s) & (case.jobs.estimate_s <= HOUR_S)
    assert short.any()
    assert (((hours < 8) | (hours >= 20)) | ~short).all()


def test_place_says_why_it_is_not_measured(measured: tuple[Lever, ...]) -> None:
    assert "it needs other sites" in measured[-1].note


def test_the_last_days_are_those_of_the_last_submissions(estimate: SavingsEstimate) -> None:
    case = estimate.prepared.case
    cut, first = take_last_days(case, 2)
    assert cut.jobs.job_id.tolist() == case.jobs.job_id[first:].tolist()
    assert cut.jobs.submit_s[0] >= case.jobs.submit_s[-1] - 2 * 86_400 > case.jobs.submit_s[first - 1]
    assert len(cut.node_power_w) == len(cut.jobs)


def test_nodes_of_a_class_that_is_set_are_those(estimate: SavingsEstimate) -> None:
    settings = replace(SETTINGS, power=PowerSettings(node_class="sketch"))
    named = estimate_savings(read_swf(SAMPLE_LOG), settings, (EASY, GREEDY), days=2, replays=2)
    case, note = add_sleeping_nodes(named.prepared.case, 1)
    assert case is named.prepared.case
    assert note == "nodes are of the class sketch"
    assumed, _ = add_sleeping_nodes(estimate.prepared.case, 2)
    assert assumed.nodes is not None
    assert assumed.nodes.node_class.idle_w == 2 * estimate.prepared.case.machine.idle_w


@given(st.floats(1, 1000))
def test_a_scaled_class_sleeps_when_the_other_does(idle_w: float) -> None:
    other = scale_node_class(SERVER, idle_w)
    assert other.idle_w == idle_w
    assert other.running_w(1.0) / idle_w == pytest.approx(SERVER.running_w(1.0) / SERVER.idle_w)
    assert other.state_w() == pytest.approx(SERVER.state_w() * idle_w / SERVER.idle_w)
    assert [break_even_s(other, depth.depth) for depth in other.depths] == pytest.approx(
        [break_even_s(SERVER, depth.depth) for depth in SERVER.depths]
    )


def test_the_overhead_of_an_enclosure_is_scaled_too() -> None:
    shared = replace(SERVER, enclosure=EnclosurePower(12, 120.0))
    assert scale_node_class(shared, SERVER.idle_w / 2).enclosure == EnclosurePower(12, 60.0)


def test_a_machine_whose_idle_nodes_draw_nothing_has_nothing_to_gain_from_sleep() -> None:
    assert not np.any(scale_node_class(SERVER, 0.0).state_w())
