"""The live queue hook inside the engine: asked at every pass, it makes the schedules of the compiled policies."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from queue_site import NOW_S, RULES, TOP, Site, a_job
from random_logs import PLAIN, Log, logs, starts

from offpeak.plugin.window_policy import EXTERNAL, GREEDY, KNAPSACK, WindowPolicy, WindowView
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import Policy

pytestmark = pytest.mark.quick

NAMES = {GREEDY: "greedy", KNAPSACK: "knapsack"}


def by_hook(policy: str, view: WindowView) -> list[int]:
    """Return the window's ranks in the order in which the scheduler would have them after the hook's plan."""
    jobs = tuple(
        a_job(int(number), priority=TOP - int(number), nodes=int(nodes), submit_s=NOW_S - int(waited_s))
        for number, nodes, waited_s in zip(view.job_id, view.size, view.waited_s, strict=True)
    )
    draws = {job.job_id: float(power_w) for job, power_w in zip(jobs, view.node_power_w, strict=True)}
    facts = {"peak": view.peak, "node_power_w": draws, "free_nodes": (view.free,)}
    site = Site(jobs)
    order = site.apply(site.plan(replace(RULES, policy=policy), **facts)).order()
    rank = {job.job_id: at for at, job in enumerate(jobs)}
    return [rank[job] for job in order]


def starts_by_hook(log: Log, code: int) -> list[int]:
    """Return when each job starts where the hook orders the window."""
    by_function = WindowPolicy("hook", EXTERNAL, "", order=lambda view: by_hook(NAMES[code], view))
    policy = Policy("easy+hook", PLAIN._replace(policy=EXTERNAL), by_function, kill_at_estimate=False)
    done = replay(log.jobs, log.node_power_w, machine_size=log.machine_size, policy=policy, peaks=log.peaks)
    return [int(start_s) for start_s in done.start_s]


@pytest.mark.parametrize("code", [GREEDY, KNAPSACK])
@given(log=logs(most_jobs=25))
def test_the_live_order_is_the_simulated_one(code: int, log: Log) -> None:
    assert starts_by_hook(log, code) == starts(log, PLAIN._replace(policy=code))


def shown_live(view: WindowView) -> WindowView:
    """Return what an own policy sees of this window on a scheduler."""
    columns = (view.job_id, view.size, view.waited_s, view.estimate_s)
    jobs = tuple(
        a_job(int(number), nodes=int(nodes), submit_s=NOW_S - int(waited_s), limit_s=int(limit_s))
        for number, nodes, waited_s, limit_s in zip(*columns, strict=True)
    )
    draws = {job.job_id: float(power_w) for job, power_w in zip(jobs, view.node_power_w, strict=True)}
    seen: list[WindowView] = []

    def ask(views: Sequence[WindowView]) -> list[list[int]]:
        seen.extend(views)
        return [list(range(len(each.size))) for each in views]

    facts = {"peak": view.peak, "node_power_w": draws, "free_nodes": (view.free,)}
    Site(jobs).plan(replace(RULES, policy="own", own_policy=ask), **facts)
    (live,) = seen
    return live


@given(log=logs(most_jobs=15))
def test_an_own_policy_sees_live_what_the_engine_shows(log: Log) -> None:
    pairs: list[tuple[WindowView, WindowView]] = []

    def order(view: WindowView) -> list[int]:
        pairs.append((view, shown_live(view)))
        return list(reversed(range(len(view.size))))

    own = WindowPolicy("own", EXTERNAL, "", order=order)
    policy = Policy("easy+own", PLAIN._replace(policy=EXTERNAL), own, kill_at_estimate=False)
    replay(log.jobs, log.node_power_w, machine_size=log.machine_size, policy=policy, peaks=log.peaks)
    for simulated, live in pairs:
        assert (live.peak, live.free) == (simulated.peak, simulated.free)
        for name in ("job_id", "size", "estimate_s", "waited_s", "node_power_w"):
            assert getattr(live, name).tolist() == getattr(simulated, name).tolist()
