"""The same window has the same order everywhere: on equal units, on pools of nodes, and on the live queue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import NOW_S, RULES, TOP, Site, a_job, plain_cluster

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.jobs import Jobs
from offpeak.model.limits import Qos
from offpeak.model.request import Chunk, Request
from offpeak.plugin.priority_bands import band_widths
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.window_order import order_view
from offpeak.plugin.window_policy import BUILT_IN_BY_NAME, EXTERNAL, WindowPolicy, WindowView
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import FCFS, USER_ESTIMATE, PeakTimes, SchedulingRules
from offpeak.sim_backend.replay.equal_nodes import unit_replay
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import Replay, rules_of

AT_S = 100
MOST_JOBS = 12


def shortest_of_the_widest(view: WindowView) -> list[int]:
    """An own policy that looks at all columns, and leaves out the last rank."""
    sign = -1 if view.peak == Peak.ON_PEAK else 1
    ranks = range(len(view.size) - 1)
    fits = view.size <= view.free
    return sorted(
        ranks, key=lambda at: (not fits[at], sign * view.size[at], view.estimate_s[at], view.node_power_w[at])
    )


POLICIES = {
    "greedy": BUILT_IN_BY_NAME["greedy"],
    "knapsack": BUILT_IN_BY_NAME["knapsack"],
    "own": WindowPolicy("own", EXTERNAL, "", order=shortest_of_the_widest),
}


@dataclass(frozen=True)
class Window:
    """Jobs that are all submitted at AT_S to an empty machine: size, estimate and draw per unit [W] of each."""

    rows: Sequence[tuple[int, int, int]]
    units: int
    peak: Peak

    def column(self, number: int) -> np.ndarray:
        return np.array([row[number] for row in self.rows], dtype=np.int64)

    @property
    def submit_s(self) -> np.ndarray:
        return np.full(len(self.rows), AT_S)

    @property
    def peaks(self) -> PeakTimes:
        return PeakTimes(np.array([0]), np.array([self.peak], dtype=np.int8))

    @property
    def jobs(self) -> Jobs:
        none = np.full(len(self.rows), -1)
        number = np.arange(1, len(self.rows) + 1)
        size, estimate_s = self.column(0), self.column(1)
        return Jobs(number, self.submit_s, estimate_s, estimate_s, size, none, none, none, none, none, none * np.nan)

    @property
    def view(self) -> WindowView:
        return WindowView(
            now_s=AT_S,
            peak=self.peak,
            free=self.units,
            job_id=np.arange(1, len(self.rows) + 1),
            size=self.column(0),
            estimate_s=self.column(1),
            waited_s=np.zeros(len(self.rows), np.int64),
            node_power_w=self.column(2).astype(np.float64),
        )


@st.composite
def windows(draw, peaks=(Peak.ON_PEAK, Peak.OFF_PEAK)) -> Window:
    """Up to MOST_JOBS jobs with many ties, none wider than the machine."""
    units = draw(st.integers(1, 12))
    row = st.tuples(st.integers(1, units), st.integers(1, 6), st.integers(1, 4))
    rows = draw(st.lists(row, min_size=1, max_size=MOST_JOBS))
    return Window(rows, units, draw(st.sampled_from(peaks)))


def policy_of(name: str, discipline: int = FCFS) -> Policy:
    window = POLICIES[name]
    rules = SchedulingRules(discipline, window.code, MOST_JOBS, 0, 10**9, USER_ESTIMATE, pass_per_event=False)
    return Policy(name, rules, window, kill_at_estimate=False)


def order_on_units(window: Window, policy: Policy) -> list[int]:
    made = unit_replay(window.jobs, window.view.node_power_w, window.units, policy, peaks=window.peaks)
    made.go_on(AT_S)
    return made.state.window.order[: len(window.rows)].tolist()


def order_on_pools(
    window: Window, policy: Policy, priority: np.ndarray | None = None, qos: Sequence[str] = ()
) -> list[int]:
    pools = (Pool(NodeType(0), frozenset({"batch"}), window.units),)
    cluster = Cluster(pools, {"batch": Partition("batch")}, qos=QOS if qos else {})
    rows = list(zip(window.column(0).tolist(), qos or [""] * len(window.rows), strict=True))
    kinds = sorted(set(rows))
    jobs = RequestedJobs(
        job_id=window.jobs.job_id,
        submit_s=window.submit_s,
        runtime_s=window.column(1),
        estimate_s=window.column(1),
        request=np.array([kinds.index(row) for row in rows]),
        part_power_w=window.view.node_power_w,
        priority=priority,
    )
    case = engine_case(cluster, [Request(("batch",), (Chunk(size),), qos=name) for size, name in kinds], jobs)
    widths = band_widths(policy.priority_band_percent, cluster, case.workload.priority)
    rules = rules_of(policy)._replace(widths=widths)
    made = Replay(case, policy, rules, peaks=window.peaks)
    made.go_on(AT_S)
    return made.state.window.order[: len(window.rows)].tolist()


def order_on_live_queue(
    window: Window, policy: Policy, priority: np.ndarray | None = None, qos: Sequence[str] = ()
) -> list[int]:
    jobs = tuple(
        a_job(number, priority=TOP - number, nodes=nodes, limit_s=limit_s, submit_s=NOW_S)
        for number, (nodes, limit_s, _) in enumerate(window.rows, 1)
    )
    ranking, cluster = Ranking.VALUE, plain_cluster(jobs)
    if priority is not None:
        rights = zip(jobs, priority.tolist(), qos, strict=True)
        jobs = tuple(job._replace(priority=value, qos=name) for job, value, name in rights)
        ranking, cluster = Ranking.OFFSET, replace(cluster, qos=QOS)
    draws = {job.job_id: float(power_w) for job, (_, _, power_w) in zip(jobs, window.rows, strict=True)}
    own = (lambda views: [order_view(policy.window_policy, view) for view in views]) if policy.name == "own" else None
    facts = {"peak": window.peak, "node_power_w": draws, "free_nodes": (window.units,), "cluster": cluster}
    site, percent = Site(jobs, ranking, facts=facts), policy.priority_band_percent
    rules = replace(RULES, policy=policy.name, own_policy=own, priority_band_percent=percent)
    return [int(job) - 1 for job in site.apply(site.plan(rules)).order()]


@pytest.mark.parametrize("name", list(POLICIES))
@given(window=windows())
def test_a_window_has_one_order(name: str, window: Window) -> None:
    policy = policy_of(name)
    order = order_view(policy.window_policy, window.view)
    assert sorted(order) == list(range(len(window.rows)))
    assert order_on_units(window, policy) == order
    assert order_on_pools(window, policy) == order
    assert order_on_live_queue(window, policy) == order


QOS = {name: Qos(name, priority=at) for at, name in enumerate(("low", "high"))}


@pytest.mark.parametrize("name", list(POLICIES))
@given(window=windows(), data=st.data(), percent=st.integers(0, 60))
def test_a_window_keeps_the_same_rights(name: str, window: Window, data: st.DataObject, percent: int) -> None:
    jobs = len(window.rows)
    priority = np.array(data.draw(st.lists(st.integers(1, 40), min_size=jobs, max_size=jobs)))
    qos = data.draw(st.lists(st.sampled_from(sorted(QOS)), min_size=jobs, max_size=jobs))
    policy = replace(policy_of(name), priority_band_percent=percent)
    site_order = np.argsort(-priority, kind="stable")
    ranks = order_on_pools(window, policy, priority, qos)
    assert [int(site_order[rank]) for rank in ranks] == order_on_live_queue(window, policy, priority, qos)


@pytest.mark.parametrize("name", list(POLICIES))
def test_without_a_price_built_in_policies_change_nothing(name: str) -> None:
    window = Window([(2, 5, 1), (1, 4, 3), (1, 3, 2)], 2, Peak.UNKNOWN)
    is_own = name == "own"
    assert (order_view(POLICIES[name], window.view) == [0, 1, 2]) != is_own
    assert (order_on_units(window, policy_of(name)) == [0, 1, 2]) != is_own
