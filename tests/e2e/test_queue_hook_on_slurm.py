"""The queue hook's plans on a running slurmctld: the order takes effect, stays, and is restored."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from needed_programs import need
from queue_site import NOW_S, Site, a_job
from slurm_fixtures import PACKAGES

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld
from offpeak.plugin.queue_hook.queue_plan import QueuePlan, restore_plan
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

FIELD = {Ranking.VALUE: "priority", Ranking.OFFSET: "nice"}
PLUGIN = {Ranking.VALUE: "priority/basic", Ranking.OFFSET: "priority/multifactor"}
ASK = ("squeue", "--noheader", "--array", "--Format=JobID:20,ArrayTaskID:20,PriorityLong:20,Nice:20")
DRAWS = {str(number): 100.0 * number for number in range(1, 20)}


@pytest.fixture(params=list(FIELD), ids=lambda ranking: ranking.value)
def site(request: pytest.FixtureRequest) -> Iterator[tuple[SlurmCluster, Site]]:
    """A controller without nodes, its waiting jobs, and the other inputs of the hook."""
    need(("slurmctld", "sbatch", "munged", "setpriv"), packages=PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-slurm-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        socket = servers.enter_context(munge(folder))
        port, *node_ports = servers.enter_context(reserved_ports(2))
        cluster = SlurmCluster(folder, socket, port, tuple(node_ports), priority=PLUGIN[request.param])
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        yield cluster, Site((), request.param, facts={"node_power_w": DRAWS})


def submit(cluster: SlurmCluster, *options: str) -> str:
    return cluster.run("sbatch", "--parsable", *options, "--wrap=true").strip()


def seen(cluster: SlurmCluster, site: Site) -> Site:
    """Return the site with the jobs as Slurm has them."""
    jobs: dict[str, Job] = {}
    for line in cluster.run(*ASK).splitlines():
        number, task, priority, nice = line.split()
        tasks = {} if task == "N/A" else {"array_id": number, "tasks": 2}
        jobs[number] = a_job(int(number), priority=int(priority), offset=-int(nice), submit_s=NOW_S - 60, **tasks)
    return replace(site, jobs=tuple(jobs.values()))


def write(cluster: SlurmCluster, site: Site, plan: QueuePlan) -> Site:
    """Write the plan, and return the new state."""
    remembered = site.remember(plan)
    for job, value in plan.rank.items():
        reported = value if site.ranking is Ranking.VALUE else -value
        cluster.run("scontrol", "update", f"jobid={job}", f"{FIELD[site.ranking]}={reported}")
    return seen(cluster, remembered)


def left_alone(plan: QueuePlan) -> set[str]:
    """Return the jobs that count as changed by hand."""
    return {decision.subject for decision in plan.decisions if decision.decided == "left alone"}


def test_the_order_comes_about_stays_and_is_given_back(site: tuple[SlurmCluster, Site]) -> None:
    cluster, start = site
    for options in ((), (), (), ("--array=1-2",), (), (), ("--nice=100",)):
        submit(cluster, *options)
    before = seen(cluster, start)
    plan = before.plan(peak=Peak.OFF_PEAK)
    assert left_alone(plan) == set()
    after = write(cluster, before, plan)
    assert after.order() == ["6", "5", "4", "3", "2", "1", "7"]
    assert after.plan(peak=Peak.OFF_PEAK).changes_nothing
    back = write(cluster, after, restore_plan(after.jobs, after.marks, ranking=start.ranking))
    assert [(job.job_id, job.priority, job.offset) for job in back.jobs] == [
        (job.job_id, job.priority, job.offset) for job in before.jobs
    ]


def test_an_admins_hand_is_seen_and_respected(site: tuple[SlurmCluster, Site]) -> None:
    cluster, start = site
    for _ in range(5):
        submit(cluster)
    once = seen(cluster, start)
    ranked = write(cluster, once, once.plan(peak=Peak.OFF_PEAK))
    by_hand = "priority=4294901000" if start.ranking is Ranking.VALUE else "nice=-77"
    cluster.run("scontrol", "update", "jobid=2", by_hand)
    found = seen(cluster, ranked)
    plan = found.plan()
    assert "2" not in plan.rank
    assert left_alone(plan) == {"job 2"}
    assert "2" not in restore_plan(found.jobs, found.marks, ranking=start.ranking).rank


@pytest.mark.parametrize("site", [Ranking.VALUE], indirect=True)
def test_what_stands_out_at_first_view(site: tuple[SlurmCluster, Site]) -> None:
    cluster, start = site
    for options in ((), ("--nice=10",), ("--nice=-5",), (), (), (), ()):
        submit(cluster, *options)
    assert left_alone(seen(cluster, start).plan()) == set()
    cluster.run("scontrol", "hold", "4")
    cluster.run("scontrol", "release", "4")
    cluster.run("scontrol", "update", "jobid=5", "priority=4294967000")
    assert left_alone(seen(cluster, start).plan()) == {"job 4", "job 5"}
