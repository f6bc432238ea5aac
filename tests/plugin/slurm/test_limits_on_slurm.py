"""Licences and QOS of a running slurmctld: what is read of them, and that the plan waits for what Slurm waits for."""

from collections.abc import Iterator

import pytest
from planned_site import HOUR_S, ROOM, RULES, prices
from slurm_fixtures import accounting_slurm
from slurm_queue import empty, submit

from benchmarks.local_slurm.processes import ME, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.limits import Allowance
from offpeak.plugin.day_plan.day_plan import DayPlan
from offpeak.plugin.day_plan.inputs import PlanInputs
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.slurm.scheduler import SlurmScheduler

SETTINGS = "Licenses=matlab:3\nAccountingStorageEnforce=associations,limits,qos\n"
ACCOUNTS = (
    ("add", "qos", "two", "GrpJobs=2"),
    ("add", "qos", "part", "MaxTRESPerUser=node=3"),
    ("add", "qos", "cores", "GrpTRES=cpu=7"),
    ("add", "account", "tests"),
    ("add", "user", ME, "account=tests"),
    ("modify", "user", ME, "set", "defaultaccount=tests"),
    ("modify", "user", ME, "set", "qos=normal,two,cores"),
    ("add", "resource", "name=sim", "server=db", "servertype=other", "count=10", "type=license"),
    ("add", "resource", "name=sim", "server=db", "cluster=test", "percentallowed=50"),
)


@pytest.fixture(scope="module")
def limited_slurm() -> Iterator[SlurmCluster]:
    """Four nodes of four cores, three licences and half of ten remote ones; QOS limit jobs, nodes and cores."""
    with accounting_slurm(SETTINGS) as accounting:
        for arguments in ACCOUNTS:
            accounting.cluster.run("sacctmgr", "--immediate", *arguments)
        accounting.cluster.run("scontrol", "update", "partitionname=again", "qos=part")
        yield accounting.cluster


@pytest.fixture
def limited(limited_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    monkeypatch.setenv("SLURM_CONF", str(limited_slurm.conf))
    yield limited_slurm
    empty(limited_slurm)


@pytest.mark.usefixtures("limited")
def test_limits_are_read(slurm: SlurmScheduler) -> None:
    wait_until(lambda: "sim@db" in slurm.traits().limits.licences, what="the remote licence")
    traits = slurm.traits()
    assert traits.limits.licences == {"matlab": 3, "sim@db": 5}
    assert traits.limits.qos["two"].group == Allowance(jobs=2)
    assert traits.limits.qos["part"].per_user == Allowance(nodes=3)
    assert {each.name: each.qos for each in traits.partitions} == {"batch": "", "again": "part"}


@pytest.mark.parametrize("option", ["--licenses=matlab:3", "--qos=two"])
def test_the_plan_waits_for_what_slurm_waits_for(limited: SlurmCluster, slurm: SlurmScheduler, option: str) -> None:
    runs = [submit(limited, option, "--time=60") for _ in range(2 if "qos" in option else 1)]
    waits = submit(limited, option, "--time=10")
    state = ("squeue", "--noheader", "--format=%t", f"--jobs={','.join(runs)}")
    wait_until(lambda: set(limited.run(*state).split()) == {"R"}, what="the jobs to run")
    plan = plan_of(slurm)
    load = {load.job_id: load.until_s for load in plan.loads}
    planned = {job.job_id: job.start_s for job in plan.jobs}
    assert planned[waits] == min(load[job] for job in runs)
    assert limited.run("squeue", "--noheader", "--format=%t", f"--jobs={waits}").strip() == "PD"


def test_an_exclusive_job_takes_all_cores_of_its_nodes_from_the_limits(
    limited: SlurmCluster, slurm: SlurmScheduler
) -> None:
    runs = submit(limited, "--qos=cores", "--exclusive", "--ntasks=1", "--time=60")
    waits = submit(limited, "--qos=cores", "--exclusive", "--ntasks=1", "--time=10")
    state = ("squeue", "--noheader", "--format=%t %r", f"--jobs={waits}")
    wait_until(lambda: limited.run(*state).strip() == "PD QOSGrpCpuLimit", what="the limit to hold the second job")
    plan = plan_of(slurm)
    planned = {job.job_id: job.start_s for job in plan.jobs}
    assert planned[waits] == next(load.until_s for load in plan.loads if load.job_id == runs)


def plan_of(slurm: SlurmScheduler) -> DayPlan:
    """Return the plan of the queue as Slurm shows it."""
    view, traits = slurm.view(), slurm.traits()
    facts = QueueFacts(
        view.at_s,
        view.jobs,
        traits.ranking,
        prices=prices(*[100.0] * 48, from_s=view.at_s - HOUR_S),
        node_power_w={job.job_id: 300.0 for job in view.jobs},
        cluster=cluster_of(view, traits.partitions, limits=traits.limits),
    )
    inputs = PlanInputs(facts, RULES, view.nodes, shared_nodes=traits.shared_nodes, room=ROOM)
    plan = plan_day(inputs, None, budget_of(5.0))
    assert plan is not None
    assert plan.violations == ()
    return plan
