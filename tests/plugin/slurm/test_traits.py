"""What slurm.conf says, and what in it is wrong for nodes that sleep."""

import os
import socket
from pathlib import Path

import pytest

from offpeak.model.cluster import NO_TIMING, SchedulerTiming
from offpeak.model.limits import PreemptMode, SiteLimits
from offpeak.settings.agent import SlurmSettings
from plugin.scheduler.port import Ranking
from plugin.slurm import scheduler
from plugin.slurm.changes import ScontrolOptions
from plugin.slurm.configuration import AdminLevel, SlurmRights, order_wait_s, traits_of_text

pytestmark = pytest.mark.quick

GOOD = {
    "PriorityType": "priority/basic",
    "ResumeFailProgram": "/a",
    "ResumeProgram": "/b",
    "ResumeTimeout": "600 sec",
    "ReturnToService": "2",
    "SelectType": "select/cons_tres",
    "SLURM_VERSION": "22.05.8",
    "SlurmdTimeout": "300 sec",
    "SuspendProgram": "/c",
    "SuspendTime": "31536000 sec",
}
PARTITIONS = b"PartitionName=a OverSubscribe=NO PreemptMode=OFF\nPartitionName=b OverSubscribe=EXCLUSIVE\n"


def config(**others: str) -> bytes:
    lines = (f"{name:<23} = {value}\n" for name, value in (GOOD | others).items())
    return ("Configuration data as of 2026-11-20T22:43:05\n" + "".join(lines)).encode()


def test_a_good_configuration() -> None:
    traits = traits_of_text(config(), PARTITIONS)
    assert (traits.name, traits.version, traits.ranking) == ("slurm", "22.05.8", Ranking.VALUE)
    assert (traits.power_saving, traits.boot_s, traits.shared_nodes, traits.problems) == (True, 600, True, ())
    assert traits_of_text(config(PriorityType="priority/multifactor"), b"").ranking is Ranking.OFFSET


@pytest.mark.parametrize(
    ("parameters", "cycle_s"),
    [
        ("(null)", 60),
        ("bf_interval=600", 1200),
        ("bf_interval=600,bf_max_time=60", 660),
        ("defer,sched_interval=300", 300),
    ],
)
def test_the_longest_time_between_two_looks_at_all_jobs(parameters: str, cycle_s: int) -> None:
    assert traits_of_text(config(SchedulerParameters=parameters), b"").cycle_s == cycle_s


def test_the_timing_of_passes() -> None:
    assert traits_of_text(config(), b"").timing == NO_TIMING, "no backfill is configured"
    backfill = {"SchedulerType": "sched/backfill"}
    plain = traits_of_text(config(**backfill, SchedulerParameters="(null)"), b"").timing
    known = SchedulerTiming(
        bf_interval_s=30, bf_most_jobs=500, bf_resolution_s=60, end_window_s=30, boot_check_s=30, requeue_s=121
    )
    assert plain[:-1] == known[:-1]
    assert plain.text == "backfill every 30 s for up to 500 jobs, passes in order at each submission and end"
    set_by_admin = "defer,bf_interval=60,sched_interval=120,bf_max_job_test=1000,bf_window_linear=60,bf_continue"
    timing = traits_of_text(config(**backfill, SchedulerParameters=set_by_admin), b"").timing
    assert (timing.sched_interval_s, timing.bf_interval_s, timing.bf_most_jobs) == (3, 60, 1000)
    assert timing.end_window_step_s == 60
    assert timing.text.endswith("passes in order every 3 s (defer)")
    assert traits_of_text(config(**backfill, SchedulerParameters="bf_interval=x"), b"").timing.bf_interval_s == 30
    soon = traits_of_text(config(**backfill, AuthInfo="socket=/run/munge.socket,cred_expire=30"), b"").timing
    assert soon.requeue_s == 31


@pytest.mark.parametrize("preempt_type", ["preempt/partition_prio", "preempt/qos", "preempt/none"])
def test_partitions_preempt_where_slurm_says_so(preempt_type: str) -> None:
    lines = [f"PartitionName={mode} PreemptMode={mode}\n" for mode in ("OFF", "GANG,SUSPEND", "CANCEL")]
    partitions = traits_of_text(config(PreemptType=preempt_type), "".join(lines).encode()).partitions
    preempts = preempt_type == "preempt/partition_prio"
    assert {each.preempts for each in partitions} == {preempts}
    modes = [PreemptMode.OFF, PreemptMode.SUSPEND, PreemptMode.CANCEL] if preempts else [PreemptMode.REQUEUE] * 3
    assert [each.preempt_mode for each in partitions] == modes


def test_nodes_that_are_not_shared() -> None:
    assert not traits_of_text(config(SelectType="select/linear"), PARTITIONS).shared_nodes
    assert not traits_of_text(config(), b"PartitionName=b OverSubscribe=EXCLUSIVE\n").shared_nodes


@pytest.mark.parametrize(
    ("name", "value", "expected", "line", "saves"),
    [
        ("SuspendTime", "INFINITE", "Slurm powers down no node", "SuspendTime=31536000", False),
        ("SuspendTime", "NONE", "Slurm powers down no node", "SuspendTime=31536000", False),
        ("SuspendTime", "600 sec", "Slurm itself suspends nodes that are idle for 600 s", "SuspendTime=31536000", True),
        ("ResumeProgram", "(null)", "ResumeProgram not set", "ResumeProgram=", False),
        ("ResumeFailProgram", "(null)", "ResumeFailProgram not set", "ResumeFailProgram=", False),
        ("ReturnToService", "1", "ReturnToService=1: a node that Slurm took for dead", "ReturnToService=2", True),
        ("SlurmdTimeout", "60 sec", "SlurmdTimeout=60: Slurm takes a node for dead", "SlurmdTimeout=300", True),
    ],
)
def test_problems_of_the_slurm_configuration_are_listed(
    name: str, value: str, expected: str, line: str, saves: bool
) -> None:
    traits = traits_of_text(config(**{name: value}), PARTITIONS)
    assert traits.power_saving is saves
    ((message, hint),) = traits.problems
    assert expected in message
    assert line in hint


@pytest.mark.parametrize(
    ("mode", "here", "problem"),
    [
        (0o755, True, ""),
        (0o644, True, "cannot be run"),
        (0o775, True, "others than its owner may write it"),
        (None, True, "no such file"),
        (None, False, ""),
    ],
)
def test_a_program_that_slurmctld_cannot_run(tmp_path: Path, mode: int | None, here: bool, problem: str) -> None:
    program = tmp_path / "resume"
    if mode is not None:
        program.touch()
        program.chmod(mode)
    host = socket.gethostname().partition(".")[0] if here else "elsewhere"
    programs = dict.fromkeys(("SuspendProgram", "ResumeFailProgram"), "/bin/true")
    hosts = {"SlurmctldHost[0]": "first(10.0.0.1)", "SlurmctldHost[1]": f"{host}(10.0.0.2)"}
    traits = traits_of_text(config(ResumeProgram=str(program), **programs, **hosts), PARTITIONS)
    assert traits.power_saving is not bool(problem)
    told = [message for message, _ in traits.problems]
    expected = f"ResumeProgram={program}: {problem}: slurmctld powers no node, and wakes none for a job"
    assert told == ([expected] if problem else [])


def test_a_partition_that_suspends_by_itself() -> None:
    partitions = (
        b"PartitionName=a SuspendTime=300 OverSubscribe=NO\nPartitionName=b SuspendTime=NONE OverSubscribe=NO\n"
    )
    ((message, hint),) = traits_of_text(config(), partitions).problems
    assert message == "partition a: SuspendTime=300: Slurm itself suspends its idle nodes"
    assert "PartitionName=a" in hint


def test_a_daemon_that_is_never_taken_for_dead() -> None:
    assert traits_of_text(config(SlurmdTimeout="0 sec"), PARTITIONS).problems == ()


def test_the_qos_of_a_partition() -> None:
    shown = PARTITIONS.replace(b"PartitionName=a ", b"PartitionName=a QoS=short ").replace(b"b ", b"b QoS=N/A ")
    assert [each.qos for each in traits_of_text(config(), shown).partitions] == ["short", ""]


def test_the_limit_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = {"SlurmUser": "slurm(64030)", "SlurmctldParameters": "cloud_dns,rl_enable,rl_refill_rate=3"}
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    ((message, hint),) = traits_of_text(config(**limited), PARTITIONS).problems
    assert "answers this user 30 requests, then 3 a second" in message
    assert "rl_bucket_size=1000" in hint
    assert order_wait_s(config(**limited)) == pytest.approx(1 / 3)
    assert order_wait_s(config()) == 0
    enough = limited | {"SlurmctldParameters": "rl_enable,rl_bucket_size=1000"}
    assert traits_of_text(config(**enough), PARTITIONS).problems == ()
    assert traits_of_text(config(**limited | {"SlurmctldParameters": "cloud_dns"}), PARTITIONS).problems == ()
    for spared in (0, 64030):
        monkeypatch.setattr(os, "geteuid", lambda uid=spared: uid)
        assert traits_of_text(config(**limited), PARTITIONS).problems == ()


def test_orders_get_the_time_that_the_limit_makes_them_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = config(SlurmUser="slurm(64030)", SlurmctldParameters="rl_enable")
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    monkeypatch.setattr(scheduler, "ask", lambda *arguments, **_: limited if "config" in arguments else PARTITIONS)
    monkeypatch.setattr(scheduler, "cached_rights", lambda _: lambda: SlurmRights("offpeak", AdminLevel.ADMINISTRATOR))
    monkeypatch.setattr(scheduler, "read_limits", lambda *_, **__: SiteLimits())
    given: list[ScontrolOptions] = []
    monkeypatch.setattr(scheduler.changes, "defer_jobs", lambda _, scontrol: given.append(scontrol) or {})
    slurm = scheduler.SlurmScheduler(SlurmSettings())
    slurm.traits()
    slurm.defer({"1": 0})
    assert [scontrol.order_s for scontrol in given] == [0.5]
