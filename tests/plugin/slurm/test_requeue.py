"""A checkpoint and its requeue on a real slurmctld, by agents that are cut off between any two steps."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from slurm_queue import empty, submit

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.door.effect import Mode
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules, StartConstraint
from offpeak.plugin.scheduler.job import Job, JobState, join_array_tasks
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.services.agent.checkpoints import CheckpointController
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import Observer
from offpeak.services.agent.queue_loop import QueueController
from offpeak.services.agent.site_context import PartitionModes
from offpeak.settings.ledger import LedgerSettings

SCRIPT = """\
#!/bin/bash
scontrol update jobid=$SLURM_JOB_ID requeue=0
echo "start $SLURM_JOB_ID $SLURM_RESTART_COUNT" >>{trace}
checkpoint() {{ echo "asked $SLURM_JOB_ID" >>{trace}; {answer}; }}
trap checkpoint USR1
sleep 300 & while kill -0 $! 2>/dev/null; do wait $!; done
"""
ANSWER = "scontrol update jobid=$SLURM_JOB_ID requeue=1"


class Site:
    """A cluster, and the ledger of its agents: each round is that of another agent, as after kill -9."""

    def __init__(self, cluster: SlurmCluster, slurm: SlurmScheduler, folder: Path, mode: Mode = Mode.ACTIVE) -> None:
        self.cluster, self.slurm, self.mode = cluster, slurm, mode
        self.url, self.trace = f"sqlite:///{folder}/ledger.sqlite", cluster.folder / f"trace.{time.monotonic_ns()}"
        self.trace.touch()
        self.problems: tuple[str, ...] = ()

    def submit(self, *options: str, answer: str = ANSWER, comment: str = "offpeak:checkpoint=2s") -> str:
        script = self.trace.with_suffix(".sh")
        script.write_text(SCRIPT.format(trace=self.trace, answer=answer))
        script.chmod(0o755)
        command = ("sbatch", "--parsable", "--output=/dev/null", f"--comment={comment}", *options, str(script))
        return self.cluster.run(*command).strip()

    def lines(self) -> list[str]:
        return [line.strip() for line in self.trace.read_text().splitlines()]

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.lines(), what=f"the line {line!r}")

    def wait_until_old_enough(self, job: str) -> None:
        """Return once an event may ask the job: it has run for as long as its checkpoint takes."""
        self.wait_for(f"start {job}")
        time.sleep(3)

    def round(self, *jobs: str, begin_s: int) -> None:
        """Have a new agent, which an event asks to stop the jobs, run one round."""

        async def once() -> None:
            ledger, problems = Ledger(LedgerSettings(url=self.url)), ProblemLog()
            door = make_scheduler_door(ledger, lambda _: self.mode, time.time, nodes=(), hold_of=lambda _: None)
            observer, queue = Observer(self.slurm, problems), QueueController(ledger, problems)
            modes = PartitionModes(self.mode, {})
            controller = CheckpointController(queue, ledger, problems, observer, lambda: modes)
            controller.events = {job: StartConstraint(begin_s, "the grid asks") for job in jobs}
            view = await observer.view(at_most_s=0.0)
            assert view is not None
            marks = await queue.marks()
            facts = QueueFacts(view.at_s, join_array_tasks(view.jobs), Ranking.VALUE, marks=marks, cycle_s=30.0)
            rules = QueueRules("greedy", 20, 86_400, 100, 3 * 86_400, UTC)
            await controller.run_cycle(facts, rules, SchedulerOrders(door, self.slurm))
            self.problems = problems.problems
            ledger.close()

        asyncio.run(once())

    def marks(self) -> tuple[JobMark, ...]:
        ledger = Ledger(LedgerSettings(url=self.url))
        try:
            return tuple(mark for mark in ledger.marks() if mark.kind != "checkpoint")
        finally:
            ledger.close()

    def job(self, job: str) -> Job:
        (found,) = [each for each in self.slurm.view().jobs if each.job_id == job]
        return found


@pytest.fixture
def site(basic: SlurmCluster, slurm: SlurmScheduler, tmp_path: Path) -> Iterator[Site]:
    yield Site(basic, slurm, tmp_path)
    empty(basic)


def test_a_job_is_asked_requeued_and_waits(site: Site) -> None:
    begin_s = int(time.time()) + 3600
    job = site.submit()
    site.wait_until_old_enough(job)
    site.round(job, begin_s=begin_s)
    site.wait_for(f"asked {job}")
    wait_until(lambda: site.slurm.requeue_permits([job])[job].allowed, what="the permit")
    site.round(job, begin_s=begin_s)
    wait_until(lambda: site.job(job).state is JobState.PENDING, what="the job to be requeued")

    def waits() -> bool:
        site.round(job, begin_s=begin_s)
        return site.job(job).begin_s == begin_s

    wait_until(waits, what="its begin time", every_s=1.0)
    wait_until(lambda: site.cluster.run("squeue", "--noheader", "--states=CG") == "", what="its node to be free")
    site.round(job, begin_s=begin_s)
    assert waits()
    assert [mark.kind for mark in site.marks()] == ["begin", "shift T3"]
    assert site.slurm.defer({job: 0}) == {}
    site.wait_for(f"start {job} 1")
    assert site.lines().count(f"asked {job}") == 1


def test_a_job_whose_checkpoint_does_not_come_goes_on_and_is_reported(site: Site) -> None:
    job = site.submit(answer=":", comment="offpeak:checkpoint=2s")
    site.wait_until_old_enough(job)
    site.round(job, begin_s=int(time.time()) + 3600)
    site.wait_for(f"asked {job}")
    time.sleep(3)
    site.round(job, begin_s=int(time.time()) + 3600)
    assert site.job(job).state is JobState.RUNNING
    assert site.problems == (f"checkpoints: job {job}: no checkpoint within 2 s of the signal: it goes on",)
    # slurmctld itself requeues no job that does not permit it.
    assert "disabled" in site.slurm.requeue([job])[job]


def test_only_the_task_of_an_array_that_is_meant_gets_signal_and_requeue(site: Site) -> None:
    array = site.submit("--array=1-2")
    wait_until(lambda: len(site.lines()) == 2, what="both tasks to start")
    site.wait_until_old_enough(array)
    site.round(array, begin_s=int(time.time()) + 3600)
    # The last task has the number of the array.
    site.wait_for(f"asked {array}")
    wait_until(lambda: site.slurm.requeue_permits([array])[array].allowed, what="the permit")
    site.round(array, begin_s=int(time.time()) + 3600)
    wait_until(lambda: site.job(array).state is JobState.PENDING, what="the task to be requeued")
    (other,) = [job for job in site.slurm.view().jobs if job.array_id == array and job.job_id != array]
    assert other.state is JobState.RUNNING
    assert len([line for line in site.lines() if line.startswith("asked")]) == 1


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_in_other_modes_nothing_is_sent(site: Site, mode: Mode) -> None:
    site.mode = mode
    job = site.submit()
    site.wait_until_old_enough(job)
    site.round(job, begin_s=int(time.time()) + 3600)
    time.sleep(1)
    assert site.lines() == [f"start {job}"]


def test_jobs_without_a_declaration_are_never_asked(site: Site) -> None:
    job = site.submit(comment="offpeak:delay=2d")
    site.wait_until_old_enough(job)
    site.round(job, begin_s=int(time.time()) + 3600)
    usual = submit(site.cluster, "--comment=offpeak:checkpoint=2s")
    wait_until(lambda: site.job(usual).state is JobState.RUNNING, what="the other job")
    time.sleep(3)
    site.round(usual, begin_s=int(time.time()) + 3600)
    time.sleep(1)
    assert site.lines() == [f"start {job}"]
    assert site.job(usual).state is JobState.RUNNING


def test_no_permit_of_jobs_that_do_not_run(site: Site) -> None:
    job = submit(site.cluster, "--hold")
    assert site.slurm.requeue_permits([job, "99999"]) == {}
