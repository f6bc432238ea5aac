"""What slurm.conf says about the cluster; tests/plugin/contract has what in it is wrong for nodes that sleep."""

import os

import pytest

from offpeak.model.cluster import NO_TIMING, SchedulerTiming
from offpeak.model.limits import PreemptMode, SiteLimits
from offpeak.plugin.contract.slurm_rights import AdminLevel, SlurmRights
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.slurm import scheduler
from offpeak.plugin.slurm.changes import ScontrolOptions
from offpeak.plugin.slurm.configuration import order_wait_s, traits_of_text
from offpeak.settings.agent import SlurmSettings

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
    assert (traits.power_saving, traits.boot_s, traits.shared_nodes) == (True, 600, True)
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


def test_the_qos_of_a_partition() -> None:
    shown = PARTITIONS.replace(b"PartitionName=a ", b"PartitionName=a QoS=short ").replace(b"b ", b"b QoS=N/A ")
    assert [each.qos for each in traits_of_text(config(), shown).partitions] == ["short", ""]


def test_orders_get_the_time_that_the_limit_makes_them_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = config(SlurmUser="slurm(64030)", SlurmctldParameters="rl_enable")
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    assert order_wait_s(config()) == 0
    monkeypatch.setattr(scheduler, "ask", lambda *arguments, **_: limited if "config" in arguments else PARTITIONS)
    rights = SlurmRights("offpeak", AdminLevel.ADMINISTRATOR)
    monkeypatch.setattr(scheduler, "read_rights", lambda *_, **__: rights)
    monkeypatch.setattr(scheduler, "read_limits", lambda *_, **__: SiteLimits())
    given: list[ScontrolOptions] = []
    monkeypatch.setattr(scheduler.changes, "defer_jobs", lambda _, scontrol: given.append(scontrol) or {})
    slurm = scheduler.SlurmScheduler(SlurmSettings())
    slurm.traits()
    slurm.defer({"1": 0})
    assert [scontrol.order_s for scontrol in given] == [0.5]
