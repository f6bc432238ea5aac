"""What the agent's user may do in Slurm, by the level that sacctmgr gives it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import SEARCH_PATH, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.queue_hook.queue_plan import NO_NODES

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")]


@pytest.fixture
def cluster(slurm_accounting: SlurmAccounting) -> Iterator[SlurmCluster]:
    cluster = slurm_accounting.cluster
    cluster.run("sacctmgr", "--immediate", "add", "account", "daemons")
    cluster.run("sacctmgr", "--immediate", "add", "user", "games", "account=daemons")
    yield cluster
    cluster.run("sacctmgr", "--immediate", "delete", "user", "games")
    cluster.run("sacctmgr", "--immediate", "delete", "account", "daemons")


@contextmanager
def hiding(cluster: SlurmCluster, what: str) -> Iterator[None]:
    """Hide something from users without a level."""
    replace(cluster, settings=f"{cluster.settings}\nPrivateData={what}").write_conf()
    cluster.run("scontrol", "reconfigure")
    yield
    cluster.write_conf()
    cluster.run("scontrol", "reconfigure")


@pytest.fixture
def private(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """Hides jobs from those without a level."""
    with hiding(cluster, "jobs"):
        yield cluster


ASKS = """
from offpeak.errors import SchedulerError
from offpeak.settings.agent import SlurmSettings
from offpeak.plugin.scheduler.port import in_use, use_of
from offpeak.plugin.slurm.nodes import find_node_uses
from offpeak.plugin.contract.slurm_rights import AdminLevel, SlurmRights
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.plugin.contract.rules import ManagedSite
from offpeak.power.check.findings import check_scheduler

def said(ask):
    try:
        return ask()
    except SchedulerError as problem:
        return f"{type(problem).__name__}: {problem}"

print(said(lambda: in_use(SlurmScheduler(SlurmSettings()), "node3")))
# As if the level had been read wrongly.
believed = SlurmRights("games", AdminLevel.ADMINISTRATOR)
print(said(lambda: use_of("node3", find_node_uses(("node3",), lambda: believed))))
print(check_scheduler("Slurm", SlurmScheduler(SlurmSettings()), ManagedSite())[0].verdict)
"""


LOSES_RIGHT = f"""{ASKS.partition("print(")[0]}
scheduler = SlurmScheduler(SlurmSettings())
print(said(lambda: in_use(scheduler, "node3")), flush=True)
input()
print(said(lambda: in_use(scheduler, "node3")))
print(said(scheduler.view))
"""

ORDERS = """
from zoneinfo import ZoneInfo
from offpeak.errors import SchedulerError
from offpeak.settings.agent import AgentSettings
from offpeak.settings.agent import SlurmSettings
from offpeak.settings.table import Settings
from offpeak.plugin.queue_hook.queue_plan import plan_queue
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.power.check.findings import check_scheduler
from offpeak.services.agent.observer import ClusterObservation
from offpeak.services.agent.queue_loop import queue_facts, queue_rules

scheduler = SlurmScheduler(SlurmSettings())
findings = check_contract(scheduler.traits().contract, ManagedSite())
print("; ".join(f"{finding.what}: {finding.hint}" for finding in findings if finding.severity != "fault"))
print(sorted({finding.verdict for finding in check_scheduler("Slurm", scheduler, ManagedSite())})[0])
try:
    scheduler.view()
except SchedulerError as problem:
    raise SystemExit(print(f"{problem}: {problem.hint}"))
observed = ClusterObservation(scheduler.view(), scheduler.traits(), None)
facts = queue_facts(observed, draws={}, run_s={})
plan = plan_queue(facts, queue_rules(Settings(agent=AgentSettings(queue="greedy")), ZoneInfo("UTC")))
pending = sum(job.state is JobState.PENDING for job in facts.jobs)
print(pending, len(observed.view.nodes), len(plan.rank), plan.problem)
"""


AS_GAMES = ("setpriv", "--reuid=5", "--regid=60", "--clear-groups", sys.executable, "-c")


def requested_by_games(cluster: SlurmCluster, code: str = ASKS) -> list[str]:
    """Return what the code prints for a user without rights."""
    arguments = [*AS_GAMES, code]
    done = subprocess.run(arguments, env=cluster.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def level(cluster: SlurmCluster, name: str) -> None:
    cluster.run("sacctmgr", "--immediate", "modify", "user", "games", "set", f"adminlevel={name}")


def test_a_node_whose_jobs_are_hidden_is_not_free(private: SlurmCluster) -> None:
    job = private.run("sbatch", "--parsable", "--exclusive", "--nodelist=node3", "--wrap=sleep 300").strip()
    try:
        show = ("squeue", "--noheader", "--format=%t", f"--jobs={job}")
        wait_until(lambda: private.run(*show).strip() == "R", what="the job to start")
        private.run("scontrol", "update", "nodename=node3", "state=drain", "reason=offpeak: test")
        level(private, "None")
        hidden = "CannotAskSlurm: squeue: PrivateData=jobs in slurm.conf hides the jobs of others from games"
        allocated = (
            "CannotAskSlurm: scontrol: node3 is ALLOCATED+DRAIN CPUAlloc=4 AllocTRES=cpu=4, "
            "but squeue shows no job there"
        )
        assert requested_by_games(private) == [hidden, allocated, "failed"]
        # A suspended job has no processors of its node: only squeue shows that it is there.
        private.run("scontrol", "suspend", job)
        assert requested_by_games(private)[0] == hidden
        level(private, "Administrator")
        assert requested_by_games(private) == [f"runs {job}", f"runs {job}", "ok"]
    finally:
        private.run("scancel", job)
        private.run("scontrol", "update", "nodename=node3", "state=resume")


def test_a_right_that_was_lost_a_second_ago_makes_no_node_free(private: SlurmCluster) -> None:
    level(private, "Administrator")
    job = private.run("sbatch", "--parsable", "--exclusive", "--nodelist=node3", "--wrap=sleep 300").strip()
    pipe = subprocess.PIPE
    try:
        show = ("squeue", "--noheader", "--format=%t", f"--jobs={job}")
        wait_until(lambda: private.run(*show).strip() == "R", what="the job to start")
        private.run("scontrol", "suspend", job)
        private.run("scontrol", "update", "nodename=node3", "state=drain", "reason=offpeak: test")
        command = [*AS_GAMES, LOSES_RIGHT]
        with subprocess.Popen(command, env=private.environment, stdin=pipe, stdout=pipe, text=True) as agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == f"runs {job}\n"
            level(private, "None")
            printed, _ = agent.communicate("\n", timeout=60)
        hidden = "CannotAskSlurm: squeue: PrivateData=jobs in slurm.conf hides the jobs of others from games\n"
        assert printed == 2 * hidden
    finally:
        private.run("scancel", job)
        private.run("scontrol", "update", "nodename=node3", "state=resume")


def test_nodes_that_are_hidden_are_not_touched_and_the_queue_keeps_its_order(cluster: SlurmCluster) -> None:
    jobs = [
        cluster.run("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true", "--output=/dev/null").strip()
        for _ in range(2)
    ]
    try:
        with hiding(cluster, "nodes"):
            level(cluster, "None")
            in_use, _, verdict = requested_by_games(cluster)
            assert (in_use.partition(":")[0], verdict) == ("CannotAskSlurm", "failed")
            # Slurm 22.05 and later refuse the nodes; a Slurm that shows none instead leaves the order, too.
            hidden = (
                "PrivateData=nodes in slurm.conf hides what belongs to others from games: sacctmgr modify user games"
                " set adminlevel=Administrator; without slurmdbd run offpeak as SlurmUser"
            )
            problem, verdict, *seen = requested_by_games(cluster, ORDERS)
            assert (problem.startswith(hidden), verdict) == (True, "failed")
            refused = f"scontrol: slurm_load_node error: Access/permission denied: {hidden}"
            assert seen in ([f"2 0 0 {NO_NODES}"], [refused])
            level(cluster, "Operator")
            problem, *seen = requested_by_games(cluster, ORDERS)
            assert ("PrivateData" in problem, seen) == (False, ["look", "2 4 0 "])
    finally:
        cluster.run("scancel", *jobs)


def may(cluster: SlurmCluster, *update: str) -> bool:
    done = subprocess.run(
        ["setpriv", "--reuid=5", "--regid=60", "--clear-groups", "scontrol", "update", *update],
        env={"PATH": SEARCH_PATH, "LC_ALL": "C", "SLURM_CONF": str(cluster.conf)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0


def test_jobs_need_an_operator_and_nodes_an_administrator(cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true", "--output=/dev/null").strip()
    seen = {}
    try:
        for name in ("None", "Operator", "Administrator"):
            level(cluster, name)
            rights = (
                may(cluster, f"jobid={job}", "priority=4000"),
                may(cluster, f"jobid={job}", "starttime=now+2hours"),
                may(cluster, "nodename=node4", "state=drain", "reason=offpeak: test"),
                may(cluster, "nodename=node4", "state=undrain"),
            )
            seen[name] = rights
    finally:
        cluster.run("scancel", job)
    assert seen == {
        "None": (False, False, False, False),
        "Operator": (True, True, False, False),
        "Administrator": (True, True, True, True),
    }
