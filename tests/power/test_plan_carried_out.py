"""Plans carried out on the simulated scheduler, cycle by cycle: jobs end early, others come, a cap holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
from planned_site import CHEAP_AT_NIGHT, HOUR_S, NOW_S, ROOM, RULES

from offpeak.ledger.rows import JobMark
from offpeak.model.facility import PowerCap
from offpeak.model.request import Chunk
from offpeak.plugin.day_plan.day_plan import DayPlan, constraints_of, planned_of
from offpeak.plugin.day_plan.inputs import PlanInputs
from offpeak.plugin.day_plan.make import plan_day, plan_under_caps
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.queue_hook.queue_plan import keep_site_order, plan_queue
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

CYCLE_S = 300
WATTS = 400.0


@dataclass
class Site:
    """Four nodes, their queue, and the agent's two halves: the plan and the queue hook."""

    caps: tuple[PowerCap, ...] = ()
    policy: str = "plan"
    now_s: int = NOW_S
    standing: DayPlan | None = None
    marks: dict[tuple[str, str], JobMark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = {name: SimNode(name, 8) for name in ("n1", "n2", "n3", "n4")}
        self.scheduler = SimulatedScheduler(SimulatedCluster(nodes), clock=lambda: self.now_s)

    def submit(self, nodes: int, limit_s: int, *, share: float = 1.0, comment: str = "") -> str:
        """Submit a job of whole nodes that runs for so much of its limit."""
        job = SimJob(
            0, "job", "ann", "batch", (Chunk(nodes, 8),), limit_s * share, self.now_s, limit_s, whole_nodes=True
        )  # fmt: skip
        job.comment = comment
        return self.scheduler.cluster.submit(job).job_id

    def cycle(self) -> None:
        """Plan, write, and let five minutes pass."""
        view = self.scheduler.view()
        watts = {job.job_id: WATTS for job in view.jobs}
        marks = tuple(self.marks.values())
        facts = QueueFacts(
            self.now_s, view.jobs, Ranking.OFFSET, Peak.ON_PEAK, prices=CHEAP_AT_NIGHT, node_power_w=watts, marks=marks,
            cluster=cluster_of(view),
        )  # fmt: skip
        rules = replace(RULES, policy=self.policy, own_policy=keep_site_order if self.policy == "own" else None)
        snapshot = PlanInputs(facts, rules, view.nodes, shared_nodes=False, room=ROOM, caps=self.caps)
        by_plan = self.policy == "plan"
        plan = plan_day(snapshot, self.standing, budget_of(0.2)) if by_plan else plan_under_caps(snapshot)
        assert plan is not None
        assert plan.violations == ()
        self.standing, planned = plan, planned_of(plan) if by_plan else None
        written = plan_queue(replace(facts, planned=planned, constraints=constraints_of(plan)), rules)
        self.marks |= {(mark.job, mark.kind): mark for mark in (*written.remember, *written.seen)}
        assert self.scheduler.rank(written.rank) == {}
        assert self.scheduler.defer(written.begin_s) == {}
        self.scheduler.view()

    def run(self) -> Iterator[Mapping[str, JobState]]:
        """Go on until all jobs have ended; give their states after each cycle."""
        while True:
            self.cycle()
            states = {job.job_id: job.state for job in self.scheduler.view().jobs}
            yield states
            if set(states.values()) == {JobState.ENDED}:
                return
            self.now_s += CYCLE_S

    def watts(self) -> float:
        """Return what jobs and idle nodes draw now."""
        used = sum(bool(node.used) for node in self.scheduler.cluster.nodes.values())
        return used * WATTS + (4 - used) * ROOM.idle_w

    def hours(self) -> dict[str, float]:
        """Return when each job has started, in hours."""
        return {job.job_id: ((job.start_s or 0) - NOW_S) / HOUR_S for job in self.scheduler.cluster.jobs.values()}


def test_jobs_start_by_the_plan_and_earlier_where_others_end_early():
    site = Site()
    wide = site.submit(4, 2 * HOUR_S, share=0.5)
    waits = site.submit(2, HOUR_S, comment="offpeak:delay=10h")
    last = site.submit(4, HOUR_S)
    planned = []
    for _ in site.run():
        assert site.standing is not None
        planned += [job.start_s for job in site.standing.jobs if job.job_id == last]
    assert planned[0] == NOW_S + 2 * HOUR_S
    hours = site.hours()
    assert hours[wide] == 0
    assert hours[last] == pytest.approx(1, abs=0.1)
    # 22:00 is four hours on.
    assert hours[waits] == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize("policy", ["greedy", "knapsack", "off", "own", "plan"])
@pytest.mark.parametrize("consenting", [True, False])
def test_a_cap_is_never_exceeded_and_all_jobs_run(consenting, policy):
    cap = PowerCap(NOW_S + HOUR_S, NOW_S + 3 * HOUR_S, 1000, "the grid asks", "events.toml")
    site = Site((cap,), policy)
    for number in range(8):
        site.submit(1 + number % 3, HOUR_S, share=0.4 + 0.1 * (number % 5), comment="offpeak:delay=2h" * consenting)
    for _ in site.run():
        if cap.from_s <= site.now_s < cap.until_s:
            assert site.watts() <= cap.cap_w
    assert len(site.hours()) == 8
    assert max(site.hours().values()) < 8
