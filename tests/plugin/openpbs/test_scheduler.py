"""OpenPBS, as the stand-in plays it: what differs from other schedulers behind the same port."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pbs_standin import StandIn, installed, standin
from queue_site import Site

from benchmarks.local_slurm.processes import wait_until
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.contract.rules import ContractFinding, ManagedSite, check_contract
from offpeak.plugin.pbs.commands import CannotAskPbs, CommandResult
from offpeak.plugin.pbs.jobs import PbsUser
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler, jobs_of_json, jobs_of_text
from offpeak.plugin.pbs.openpbs_server import HOOK_FAILURES, parse_formula
from offpeak.plugin.queue_hook.queue_plan import FORWARD
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import in_use
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import Pbs
from offpeak.sim_backend.pbs_standin.server import USER_VARIABLE

SETTINGS = PbsSettings(timeout_s=300, boot_s=300)


@pytest.fixture
def openpbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standin("openpbs", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        yield running


def submit(openpbs: StandIn, *options: str, nodes: int = 3) -> str:
    return openpbs.run("qsub", "-l", f"select={nodes}:ncpus=8", *options, user="alice", stdin="sleep 1000\n")


def jobs(scheduler: OpenPbsScheduler) -> dict[str, Job]:
    return {job.job_id: job for job in scheduler.view().jobs}


def broken(scheduler: OpenPbsScheduler) -> tuple[ContractFinding, ...]:
    return check_contract(scheduler.traits().contract, ManagedSite())


def test_a_variable_without_a_value_of_one_job_hides_no_other_job(openpbs: StandIn, tmp_path: Path) -> None:
    """A real server's qstat prints no JSON then: `qstat: json error`."""
    installed(openpbs, tmp_path)
    openpbs.run("qsub", "-J", "1-2", "-l", "select=1:ncpus=8", user="bob", stdin="sleep 1000\n")
    raised, waiting = submit(openpbs, "-v", "OFFPEAK=delay=12h", "-p", "5"), submit(openpbs)
    scheduler = OpenPbsScheduler(SETTINGS)
    assert scheduler.rank({waiting: -25}) == {}
    assert scheduler.defer({raised: 4_000_000_000}) == {}
    before = jobs(scheduler)
    openpbs.do(lambda pbs: pbs.named(waiting)[0].attributes.update(variables="A=1\x1fBARE"))
    assert jobs(scheduler) == before
    assert before[waiting].offset == -25


def test_the_text_of_a_real_server_shows_the_same_jobs_as_its_json(shared: Path) -> None:
    answers = shared / "data" / "captures" / "openpbs"
    for name in ("A_qstat_f", "H_weird_qstat_f"):
        json, text = ((answers / f"{name}.{kind}").read_bytes() for kind in ("json", "txt"))
        assert jobs_of_text(text, lambda _: 0.0) == jobs_of_json(json, lambda _: 0.0)


def node(scheduler: OpenPbsScheduler) -> Node:
    return next(node for node in scheduler.view().nodes if node.name == "node1")


def test_the_sites_own_formula_stays_and_comes_back(openpbs: StandIn, tmp_path: Path) -> None:
    assert installed(openpbs, tmp_path, "uninstall") == "uninstalled: the order of jobs is ''\n"
    openpbs.run("qmgr", "-c", 'set server job_sort_formula = "2*job_priority"')
    scheduler = OpenPbsScheduler(SETTINGS, user=PbsUser("root", "head"))
    assert [each.message for each in broken(scheduler)] == [
        "the server has no resource offpeak_prio, offpeak_begin, offpeak_node: nodes cannot be marked, nor jobs moved",
        "job_sort_formula has no offpeak_prio: jobs do not change places",
        "the server has no enabled hook offpeak_runjob: no job is deferred",
        "the server has no enabled hook offpeak_queuejob: invalid hints pass, and a job that may wait starts at its"
        " submission where nodes are free",
        "the server has no enabled hook offpeak_modifyjob: users raise their own jobs' priority",
    ]
    assert installed(openpbs, tmp_path) == "installed: the order of jobs is '2*job_priority + offpeak_prio'\n"
    assert installed(openpbs, tmp_path) == "installed: the order of jobs is '2*job_priority + offpeak_prio'\n"
    assert broken(scheduler) == ()
    submit(openpbs)
    one, two = submit(openpbs, "-p", "5"), submit(openpbs)
    assert [jobs(scheduler)[job].priority for job in (one, two)] == [10_000, 0]
    assert scheduler.rank({two: 10_001}) == {}
    assert (jobs(scheduler)[two].priority, jobs(scheduler)[two].offset) == (10_001, 10_001)
    assert openpbs.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.pending(2**40)]) == [two, one]
    assert "2*job_priority'" in installed(openpbs, tmp_path, "uninstall")


def test_a_job_that_is_said_to_move_forward_does_although_its_owner_lowered_it(
    openpbs: StandIn, tmp_path: Path
) -> None:
    installed(openpbs, tmp_path, "uninstall")
    openpbs.run("qmgr", "-c", 'set server job_sort_formula = "job_priority"')
    installed(openpbs, tmp_path)
    scheduler = OpenPbsScheduler(SETTINGS)
    submit(openpbs)
    first, lowered, *others = (submit(openpbs) for _ in range(4))
    others = [first, *others]
    openpbs.run("qalter", "-p", "-500", lowered, user="alice")
    view = scheduler.view()
    watts = {job: 200.0 + at for at, job in enumerate(others)} | {lowered: 100.0}
    site = Site(view.jobs, scheduler.traits().ranking, facts={"node_power_w": watts, "cluster": cluster_of(view)})
    plan = site.plan()
    forward = [each.subject for each in plan.decisions if each.decided == FORWARD]
    assert forward == [f"job {lowered}"]
    assert scheduler.rank(plan.rank) == {}
    assert openpbs.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.pending(2**40)]) == [lowered, *others]
    assert replace(site, jobs=scheduler.view().jobs, marks=plan.remember).plan().changes_nothing


def test_a_server_without_a_job_history_shows_its_jobs(openpbs: StandIn) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)
    running, waiting = submit(openpbs), submit(openpbs)
    # As a server is after its installation: with -x it shows nothing, says why, and ends with 0.
    assert set(jobs(scheduler)) == {running, waiting}
    assert in_use(scheduler, "node1") == f"runs {running}"
    openpbs.run("qdel", running)
    assert set(jobs(scheduler)) == {waiting}
    openpbs.run("qmgr", "-c", "set server job_history_enable = True")
    assert jobs(scheduler)[running].state is JobState.ENDED
    openpbs.run("qmgr", "-c", "unset server job_history_enable")
    assert set(jobs(scheduler)) == {waiting}


def test_a_complaint_that_ends_with_0_is_an_error(
    openpbs: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(openpbs)
    real, wrapper = openpbs.programs / "qstat", tmp_path / "first"
    wrapper.mkdir()
    (wrapper / "qstat").write_text(f'#!/bin/sh\necho "qstat: something is not right" >&2\nexec {real} "$@"\n')
    (wrapper / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper}:{openpbs.path}")
    with pytest.raises(CannotAskPbs, match="qstat: something is not right"):
        OpenPbsScheduler(SETTINGS).view()


def test_an_empty_queue_where_the_server_counts_jobs_is_an_error(
    openpbs: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(openpbs)
    real, wrapper = openpbs.programs / "qstat", tmp_path / "first"
    wrapper.mkdir()
    (wrapper / "qstat").write_text(f'#!/bin/sh\ncase "$*" in *json*|"-f 1"*) echo {{}};; *) exec {real} "$@";; esac\n')
    (wrapper / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper}:{openpbs.path}")
    scheduler = OpenPbsScheduler(SETTINGS)
    unseen = "does not show 1.head, which qselect names"
    for ask, what in (
        (scheduler.view, "shows no job, and the server counts 1"),
        (lambda: in_use(scheduler, "node1"), unseen),
    ):
        with pytest.raises(CannotAskPbs, match=what):
            ask()
    openpbs.run("qdel", "1.head")
    assert scheduler.view().jobs == ()


def test_hooks_are_shown_to_root_only(openpbs: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    openpbs.run("qmgr", "-c", "set server managers += offpeak@head")
    monkeypatch.setenv(USER_VARIABLE, "offpeak")
    result = subprocess.run(("qmgr", "-c", "list hook"), capture_output=True, text=True, check=True)
    assert result.stdout == ""
    assert result.stderr == "offpeak@head is unauthorized to access hooks data from server head\n"
    # The resource that the hook uses is evidence enough; a root of another host learns no more.
    for user in ("offpeak", "root"):
        assert broken(OpenPbsScheduler(SETTINGS, user=PbsUser(user, "head"))) == ()


def test_a_hook_that_failed_is_reported(openpbs: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert openpbs.pbs.hooks
    monkeypatch.setenv(HOOK_FAILURES, str(tmp_path))
    failure = tmp_path / "offpeak_modifyjob"
    failure.write_text("2026-11-22T08:00:00 TypeError: no priority\n")
    problems = [each.what for each in broken(OpenPbsScheduler(SETTINGS))]
    assert problems == ["the hook offpeak_modifyjob failed: 2026-11-22T08:00:00 TypeError: no priority"]
    os.utime(failure, (1, 1))
    assert broken(OpenPbsScheduler(SETTINGS)) == ()


def test_job_sort_formula_is_evaluated() -> None:
    job = {"Priority": 3, "queue": "long", "Resource_List": {"ncpus": 4, "walltime": "01:00:00", "mem": "2gb"}}
    for written, value in (
        ("", 0.0),
        ("offpeak_prio", 0.0),
        ("offpeak_prio + 0*job_priority", 0.0),
        ("job_priority + offpeak_prio", 3.0),
        ("-walltime", -3600.0),
        ("(ncpus + 1) * 2 / 4 + queue_priority", 152.5),
        ("ncpus ** 2 + no_such_resource", 16.0),
        ("job_priority / 0", 0.0),
    ):
        formula = parse_formula(written)
        assert (formula.site_value(job, {"long": 150}), formula.problem) == (value, "")
        assert formula.ours == ("offpeak_prio" in written)
    for written in ("fairshare_perc * 5", "sqrt(ncpus)", "ncpus +* 2"):
        assert parse_formula(written).problem


def test_no_job_is_moved_if_the_sites_order_is_unknown(openpbs: StandIn) -> None:
    openpbs.run("qmgr", "-c", 'set server job_sort_formula = "fairshare_perc + offpeak_prio"')
    scheduler = OpenPbsScheduler(SETTINGS)
    submit(openpbs)
    job = submit(openpbs)
    assert scheduler.rank({job: 5000}) == {job: "the server does not show fairshare_perc"}
    assert "fairshare_perc" in broken(scheduler)[0].what


def test_users_may_not_set_what_is_ours(openpbs: StandIn) -> None:
    submit(openpbs)
    job = submit(openpbs)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        openpbs.run("qalter", "-l", "offpeak_prio=9", job, user="alice")
    assert caught.value.returncode == 15003 % 256


def test_a_job_that_is_kept_back_goes_by_the_clock(openpbs: StandIn) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)
    filler = submit(openpbs)
    job = submit(openpbs)
    at_s = scheduler.view().at_s + 3
    assert scheduler.defer({job: at_s}) == {}
    found = jobs(scheduler)[job]
    assert (found.native_state, found.begin_s) == ("Q", at_s)
    assert found.reason.startswith("Not Running: PBS Error: offpeak: deferred until")
    openpbs.run("qdel", filler)
    wait_until(lambda: scheduler.view().at_s > at_s, what="its time")
    # Nothing starts before the next cycle.
    assert jobs(scheduler)[job].state is JobState.PENDING
    assert scheduler.start_cycle([job]) == {}
    wait_until(lambda: jobs(scheduler)[job].state is JobState.RUNNING, what="the job to start")
    assert (jobs(scheduler)[job].start_s or 0) >= at_s


@pytest.mark.usefixtures("openpbs")
def test_a_cycle_of_each_scheduler_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)
    shown = {"default": "True", "p2": "True", "p3": "False"}
    listed = "".join(f"Sched {name}\n    scheduling = {value}\n    state = idle\n\n" for name, value in shown.items())
    query, change = scheduler.commands.query, scheduler.commands.change
    changes: list[str] = []

    def answer(program: str, *arguments: str) -> bytes:
        return listed.encode() if "list sched" in arguments else query(program, *arguments)

    def note(program: str, *arguments: str) -> CommandResult:
        changes.append(arguments[-1])
        return CommandResult(b"", (), 0) if "sched p2" in arguments[-1] else change(program, *arguments)

    monkeypatch.setattr(scheduler.commands, "query", answer)
    monkeypatch.setattr(scheduler.commands, "change", note)
    assert scheduler.start_cycle(["1.head"]) == {}
    assert changes == ["set server scheduling = true", "set sched p2 scheduling = true"]


def test_no_cycle_is_started_while_an_admin_has_stopped_the_scheduling(openpbs: StandIn) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)
    openpbs.run("qmgr", "-c", "set server scheduling = false")
    job = submit(openpbs)
    assert scheduler.start_cycle([job]) == {job: "scheduling = False: an admin has stopped it"}
    assert openpbs.do(lambda pbs: pbs.attributes["scheduling"]) == "False"
    assert jobs(scheduler)[job].state is JobState.PENDING


def test_a_node_that_sleeps_and_wakes(openpbs: StandIn) -> None:
    now_s = [1_795_300_000]
    scheduler = OpenPbsScheduler(SETTINGS, clock=lambda: now_s[0])

    def change(what: NodeChange) -> None:
        assert scheduler.change_nodes(["node1"], what, reason='offpeak: "nobody", needs it') == {}

    change(NodeChange.CLOSE)
    assert (node(scheduler).reason, node(scheduler).native_state) == ("offpeak: 'nobody'; needs it", "sleep")
    openpbs.do(lambda pbs: pbs.cluster.goes_down("node1", now_s[0]))
    # What the server writes there when it notices.
    openpbs.run("qmgr", "-c", 'set node node1 comment = "node down: communication closed"')
    assert (node(scheduler).closed_by_us, node(scheduler).failed) == (True, True)
    change(NodeChange.POWER_DOWN)
    assert (node(scheduler).power, node(scheduler).native_state) == (PowerState.OFF, "down,sleep")
    assert in_use(scheduler, "node1") == ""
    change(NodeChange.POWER_UP)
    assert node(scheduler).power is PowerState.POWERING_ON
    now_s[0] += 301
    assert (node(scheduler).power, node(scheduler).failed) == (PowerState.OFF, True)
    openpbs.do(lambda pbs: pbs.cluster.comes_up("node1", now_s[0]))
    # The server itself has ended the state.
    assert (node(scheduler).power, node(scheduler).closed) == (PowerState.ON, False)


def test_comment_of_the_server_on_a_node_is_kept(openpbs: StandIn) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)

    def change(what: NodeChange) -> str:
        assert scheduler.change_nodes(["node1"], what, reason="offpeak: x") == {}
        return node(scheduler).native_state

    assert change(NodeChange.CLOSE) == "sleep"
    openpbs.do(lambda pbs: pbs.cluster.goes_down("node1", 5))
    assert [change(each) for each in (NodeChange.POWER_DOWN, NodeChange.POWER_UP)] == ["down,sleep", "down,sleep"]
    # A node that is off and opened stays down: the scheduler gives it no job.
    openpbs.run("qmgr", "-c", "set node node1 resources_available.offpeak_node = closed.5")
    assert change(NodeChange.OPEN) == "down"
    # The response of a real server to directives that are no longer used.
    openpbs.run("qmgr", "-c", "set node node1 state = sleep")
    assert node(scheduler).native_state == "sleep"


def test_a_suspended_job_still_has_its_node(openpbs: StandIn) -> None:
    scheduler = OpenPbsScheduler(SETTINGS)
    job = submit(openpbs, nodes=1)

    def suspend(pbs: Pbs) -> None:
        next(iter(pbs.cluster.jobs.values())).state = JobState.SUSPENDED
        # A real server takes it off the node's list.
        pbs.cluster.nodes["node1"].used.clear()

    openpbs.do(suspend)
    assert scheduler.change_nodes(["node1"], NodeChange.CLOSE, reason="offpeak: x") == {}
    assert in_use(scheduler, "node1") == f"runs {job}"
    assert node(scheduler).use == "used"
