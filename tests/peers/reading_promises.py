"""What the port promises of what it reads, of any scheduler: one that runs, or one that was recorded."""

import pytest

from offpeak.errors import SchedulerError
from offpeak.model.orders import PowerState
from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.pbs.commands import invalid_job_numbers
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Scheduler, SchedulerView, in_use

YEAR_2020_S, YEAR_2100_S = 1_577_836_800, 4_102_444_800


def keeps_its_promises(scheduler: Scheduler) -> None:
    """Fail where anything that it tells of itself, its jobs or its nodes cannot be."""
    traits, view = scheduler.traits(), scheduler.view()
    assert traits.name
    assert traits.version
    for finding in check_contract(
        traits.contract, ManagedSite(view.nodes, frozenset(node.name for node in view.nodes))
    ):
        assert finding.what
        assert finding.hint
    assert len({job.job_id for job in view.jobs}) == len(view.jobs) > 0
    assert len({node.name for node in view.nodes}) == len(view.nodes) > 0
    for job in view.jobs:
        of_a_job(job, view)
    for node in view.nodes:
        of_a_node(node, view)
    assert all(job.reason for job in view.jobs if job.state is JobState.HELD)
    of_use(scheduler, view)
    with pytest.raises(SchedulerError):
        in_use(scheduler, "no-such-node")


def of_a_job(job: Job, view: SchedulerView) -> None:
    """Identity, units and order of times."""
    assert not invalid_job_numbers([job.job_id])
    assert job.user
    assert job.name
    assert job.state is not JobState.OTHER, job.native_state
    known = {queue for node in view.nodes for queue in node.partitions}
    assert set(job.partitions) <= known
    assert job.partitions
    assert YEAR_2020_S < job.submit_s < YEAR_2100_S
    assert job.nodes >= 1
    assert job.cpus >= 1
    assert job.limit_s is None or 0 < job.limit_s < YEAR_2020_S
    for at_s in (job.begin_s, job.start_s, job.end_s):
        assert at_s is None or YEAR_2020_S < at_s < YEAR_2100_S
    if job.state in {JobState.RUNNING, JobState.SUSPENDED}:
        assert job.submit_s <= (job.start_s or 0) <= (job.end_s or YEAR_2100_S)
        assert set(job.hosts.split(",")) <= {node.name for node in view.nodes} or "[" in job.hosts
    if job.state is JobState.ENDED:
        assert (job.end_s or 0) >= (job.start_s or 0) > 0


def of_a_node(node: Node, view: SchedulerView) -> None:
    """States, sizes, and that whose job it is is known."""
    assert node.native_state
    assert node.use is not NodeUse.UNKNOWN, node.native_state
    assert node.partitions
    assert node.cpus > 0
    assert node.memory_mib > 100 or not node.responds
    assert not (node.closed_by_us and not node.reason)
    assert node.responds or node.failed or node.power is not PowerState.ON
    used = {name for job in view.jobs if job.state in HOLDING for name in job.hosts.split(",")}
    assert node.name not in used or node.use is NodeUse.USED


def of_use(scheduler: Scheduler, view: SchedulerView) -> None:
    """Whoever asks directly before an order hears of every node that is open or has a job that it is not free."""
    for node in view.nodes:
        if node.use is NodeUse.USED or not node.closed:
            assert in_use(scheduler, node.name)
