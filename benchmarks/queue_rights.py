"""Whether prices leave the rights of QOS and fair share alone, on a real slurmctld with multifactor priority.

`python -m benchmarks.queue_rights` starts a cluster with slurmdbd, three QOS and two accounts, submits mixed jobs, some
of which are arrays, held or begin later, and lets the queue hook write its order each time the price changes. It then
compares what squeue shows with the site's own order, as squeue showed it without our nice values.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import (
    ACCOUNTING,
    SlurmCluster,
    mariadb,
    munge,
    slurmctld,
    slurmd,
    slurmdbd,
    wait_for_nodes,
)
from offpeak.ledger.rows import JobMark
from offpeak.plugin.queue_hook.facts import QueueRules
from offpeak.plugin.queue_hook.queue_plan import plan_queue
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.prices.peak import Peak
from offpeak.services.accounts.job_draws import JobDraw
from offpeak.services.agent.observer import ClusterObservation
from offpeak.services.agent.queue_loop import queue_facts
from offpeak.settings.agent import SlurmSettings

NODES, JOBS, CHANGES = 4, 500, 5
AGE, FAIR_SHARE, JOB_SIZE = 10_000, 2_000, 1_000
SETTINGS = f"""\
PriorityWeightAge={AGE}
PriorityWeightFairShare={FAIR_SHARE}
PriorityWeightJobSize={JOB_SIZE}
PriorityWeightQOS=20000
PriorityCalcPeriod=1
AccountingStorageEnforce=associations,qos
"""
QOS = {"low": 0, "usual": 50, "urgent": 100}
ACCOUNTS = ("astro", "bio")
EXTRAS = ((), (), (), (), ("--array=1-3",), ("--begin=now+1hour",), ("--begin=now+20",), ("--hold",))
"""The options of which each job gets one: nothing, tasks, a later begin, or to be held."""
SHOWN = ("squeue", "--noheader", "--states=PD", "--format=%A|%Q|%y|%q|%a")


class ShownJob(NamedTuple):
    """A pending job as squeue shows it; `site_priority` is its priority without its nice value."""

    job_id: int
    priority: int
    site_priority: int
    qos: str
    account: str


@dataclass(frozen=True)
class QueueRightsResult:
    """How many nice values were written, and of the pairs that changed places how many had different rights."""

    pending: int
    written: int
    exchanged: int
    behind_lower_qos: int
    beyond_band: int

    def __str__(self) -> str:
        return (
            f"{self.pending} pending jobs, {self.written} nice values written, {self.exchanged} pairs exchanged;"
            f" behind a lower QOS: {self.behind_lower_qos}, beyond the band: {self.beyond_band}"
        )


def measure(
    *, jobs: int = JOBS, changes: int = CHANGES, percent: int = 10, extras: Sequence[Sequence[str]] = EXTRAS
) -> QueueRightsResult:
    """Return what the changes of the price do to the queue of so many jobs, each with some of the `extras`."""
    with _cluster() as cluster:
        _submit(cluster, jobs, extras)
        return _follow_prices(cluster, changes, percent)


@contextmanager
def _cluster() -> Iterator[SlurmCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-rights-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        socket = servers.enter_context(munge(folder))
        database = servers.enter_context(mariadb(folder))
        book_port, port, *node_ports = servers.enter_context(reserved_ports(2 + NODES))
        settings = ACCOUNTING.format(port=book_port, munge=socket) + SETTINGS
        cluster = SlurmCluster(folder, socket, port, tuple(node_ports), settings, priority="priority/multifactor")
        cluster.write_conf()
        servers.enter_context(slurmdbd(folder, book_port, munge=socket, database=database))
        cluster.run("sacctmgr", "--immediate", "add", "cluster", cluster.name)
        for qos, priority in QOS.items():
            cluster.run("sacctmgr", "--immediate", "add", "qos", qos, f"priority={priority}")
        every = ",".join(QOS)
        for account in ACCOUNTS:
            cluster.run("sacctmgr", "--immediate", "add", "account", account, f"qos={every}")
            cluster.run("sacctmgr", "--immediate", "add", "user", "root", f"account={account}", f"qos={every}")
        servers.enter_context(slurmctld(cluster))
        for number in range(1, NODES + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield cluster


def _submit(cluster: SlurmCluster, jobs: int, extras: Sequence[Sequence[str]]) -> None:
    """Submit mixed jobs of both accounts and all QOS, of which the first take all nodes."""
    random = Random(7)
    for number in range(jobs):
        qos = random.choices(list(QOS), (5, 3, 2))[0]
        size = f"--nodes={random.randint(1, NODES)}"
        options = (f"--qos={qos}", f"--account={random.choice(ACCOUNTS)}", size)
        draw = random.choice((200, 300, 400, 700))
        extra = (*random.choice(extras), f"--time={random.randint(2, 90)}")
        cluster.run("sbatch", *options, *extra, f"--job-name=w{draw}-{number}", "--output=/dev/null", "--exclusive",
                    f"--wrap=sleep {random.randint(2, 8)}")  # fmt: skip


def _follow_prices(cluster: SlurmCluster, changes: int, percent: int) -> QueueRightsResult:
    band = (AGE + FAIR_SHARE + JOB_SIZE) * percent // 100
    os.environ |= cluster.environment
    scheduler, rules = SlurmScheduler(SlurmSettings()), QueueRules("greedy", 100, 86_400, percent, 0, UTC)
    marks: dict[tuple[str, str], JobMark] = {}
    total = QueueRightsResult(0, 0, 0, 0, 0)
    for change in range(changes):
        traits = scheduler.traits()
        before = _shown(cluster)
        observed = ClusterObservation(scheduler.view(), traits, None)
        draws = {job.job_id: JobDraw(float(job.name[1:].partition("-")[0]), "") for job in observed.view.jobs}
        facts = queue_facts(observed, draws=draws, run_s={}, marks=tuple(marks.values()))
        plan = plan_queue(replace(facts, peak=(Peak.ON_PEAK, Peak.OFF_PEAK)[change % 2]), rules)
        marks |= {(mark.job, mark.kind): mark for mark in (*plan.remember, *plan.seen)}
        refused = scheduler.rank(plan.rank)
        result = compare(before, _shown(cluster), band)
        total = QueueRightsResult(
            max(total.pending, result.pending),
            total.written + len(plan.rank) - len(refused),
            total.exchanged + result.exchanged,
            total.behind_lower_qos + result.behind_lower_qos,
            total.beyond_band + result.beyond_band,
        )
    return total


def _shown(cluster: SlurmCluster) -> list[ShownJob]:
    rows = (line.split("|") for line in cluster.run(*SHOWN).splitlines())
    jobs = [ShownJob(int(job), int(q), int(q) + int(nice), qos, account) for job, q, nice, qos, account in rows]
    # A held job has the priority 0, and no place.
    return [job for job in jobs if job.priority]


def compare(before: Sequence[ShownJob], after: Sequence[ShownJob], band: int) -> QueueRightsResult:
    """Return the pairs that changed places against the site's order, and those of which the first had a right."""
    place = {job.job_id: at for at, job in enumerate(sorted(after, key=lambda job: (-job.priority, job.job_id)))}
    in_order = sorted(before, key=lambda job: (-job.site_priority, job.job_id))
    waiting = [job for job in in_order if job.job_id in place]
    exchanged = [
        (first, second)
        for at, first in enumerate(waiting)
        for second in waiting[at + 1 :]
        if place[first.job_id] > place[second.job_id]
    ]
    return QueueRightsResult(
        len(waiting),
        0,
        len(exchanged),
        sum(QOS[first.qos] > QOS[second.qos] for first, second in exchanged),
        sum(first.site_priority - second.site_priority > band for first, second in exchanged),
    )


if __name__ == "__main__":
    print(measure(percent=int(sys.argv[1]) if len(sys.argv) > 1 else 10))
