"""The queue hook on a running slurmctld: jobs with different requests, and arrays, change places."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from queue_site import RULES
from slurm_fixtures import sleeping_slurm
from slurm_queue import empty, full, submit

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.queue_hook.queue_plan import QueuePlan, plan_queue
from offpeak.plugin.scheduler.cluster_view import cluster_of, free_nodes
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.prices.peak import Peak


@pytest.fixture(scope="module", params=["priority/basic", "priority/multifactor"])
def large_nodes(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """Three nodes with 256 GB each."""
    with sleeping_slurm(str(request.param), memory_mib=256_000) as cluster:
        yield cluster


@pytest.fixture
def large(large_nodes: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setenv("SLURM_CONF", str(large_nodes.conf))
    return large_nodes


def reorder(slurm: SlurmScheduler, draws: Mapping[str, float]) -> QueuePlan:
    """Let the hook put the queue into order, the jobs that draw least first."""
    view, traits = slurm.view(), slurm.traits()
    cluster = cluster_of(view, traits.partitions)
    facts = QueueFacts(
        view.at_s,
        view.jobs,
        traits.ranking,
        Peak.ON_PEAK,
        node_power_w=draws,
        cluster=cluster,
        free_nodes=free_nodes(cluster, view.nodes),
    )
    plan = plan_queue(facts, RULES)
    assert slurm.rank(plan.rank) == {}
    return plan


def queue_order(slurm: SlurmScheduler, jobs: list[str]) -> list[str]:
    found = [job for job in slurm.view().jobs if job.job_id in jobs]
    return [job.job_id for job in sorted(found, key=lambda job: (-job.priority, int(job.job_id)))]


def test_jobs_that_request_different_memory_change_places(large: SlurmCluster, slurm: SlurmScheduler) -> None:
    with full(large):
        jobs = [submit(large, "--exclusive", f"--mem={gib}G") for gib in (8, 9, 10)]
        plan = reorder(slurm, dict(zip(jobs, [300.0, 200.0, 100.0], strict=True)))
        assert queue_order(slurm, jobs) == list(reversed(jobs))
        assert {each.decided for each in plan.decisions} == {"moved forward", "moved back"}
        assert reorder(slurm, dict(zip(jobs, [300.0, 200.0, 100.0], strict=True))).rank == {}


def test_an_array_and_the_tasks_that_start_later_are_moved(
    large: SlurmCluster, slurm: SlurmScheduler, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    write = f"--wrap=echo $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID >> {order}"
    with full(large) as filler:
        job = submit(large, "--exclusive", "--nodes=3", write)
        array = submit(large, "--array=1-3%1", "--exclusive", "--nodes=3", write)
        held = submit(large, "--hold", "--exclusive", "--nodes=3", write)
        assert reorder(slurm, {job: 300.0, array: 100.0, held: 50.0}).rank.keys() >= {array}
        assert queue_order(slurm, [job, array]) == [array, job]
        priority = next(each.priority for each in slurm.view().jobs if each.job_id == array)
        large.run("scancel", filler)
        wait_until(lambda: order.is_file() and len(order.read_text().split()) == 7, what="the jobs to end")
        lines = order.read_text().splitlines()
        assert [line.split()[1:] for line in lines] == [["1"], ["2"], ["3"], []]
        if slurm.traits().ranking is Ranking.VALUE:
            tasks = [each for each in slurm.view().jobs if each.array_id == array and each.state is JobState.ENDED]
            assert {each.priority for each in tasks} == {priority}
    empty(large)
