"""What a job's rights are while sprio or sacctmgr fails: those last known, then no job changes places."""

from collections.abc import Callable

import pytest
from queue_site import a_job

from offpeak.model.limits import SiteLimits
from offpeak.plugin.contract.slurm_rights import ALL_RIGHTS
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.slurm import accounting, configuration, scheduler
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.scheduler import LIMITS_LAST_S, RIGHTS_LAST_S, SlurmScheduler, SlurmSnapshot
from offpeak.settings.agent import SlurmSettings

CONFIG = b"PriorityType = priority/multifactor\nPreemptType = preempt/qos\nPreemptMode = REQUEUE\n"
FACTORS = b" 1|10|500|0|0|0|0|0|0|0\n 2|0|0|0|0|0|0|0|0|0\n"
QOS = b"high|0|low|cluster|||||\nlow|0||cluster|||||\n"
JOBS = (a_job(1, priority=900), a_job(2, priority=800), a_job(3, priority=700))
FAILURES = (b"", CannotAskSlurm("it failed", hint="look at it"))
Answers = dict[str, bytes | CannotAskSlurm]


class Clock:
    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """The answers of Slurm's programs, which a test changes."""
    by_program: Answers = {"sprio": FACTORS, "sacctmgr": QOS, "scontrol": CONFIG}

    def ask(program: str, *arguments: str, **_: float) -> bytes:
        answer = by_program[program] if "partitions" not in arguments else b""
        if isinstance(answer, CannotAskSlurm):
            raise answer
        return answer

    for module in (accounting, configuration, scheduler):
        monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(scheduler, "read_rights", lambda *_, **__: ALL_RIGHTS)
    monkeypatch.setattr(scheduler, "read_load", lambda *_, **__: scheduler.SchedulerView(0, (), (), ()).load)
    monkeypatch.setattr(scheduler, "_reader", lambda _: lambda: SlurmSnapshot(JOBS, (), ()))
    return by_program


def reading() -> tuple[Callable[[], tuple[Job, ...]], Callable[[], str], SlurmScheduler, Clock]:
    clock = Clock()
    slurm = SlurmScheduler(SlurmSettings(), clock=clock)
    slurm.traits()
    return (lambda: slurm.view().jobs), (lambda: slurm.view().order_problem), slurm, clock


@pytest.mark.parametrize("failure", FAILURES)
def test_factors_last_known_count_for_a_while_if_sprio_fails(answers: Answers, failure: bytes | CannotAskSlurm) -> None:
    jobs, problem, _, clock = reading()
    before = jobs()
    assert [(job.fair_share, job.priority_is_set, job.priority_class) for job in before] == [
        *((500, False, ""), (0, True, ""), (0, False, "")),
    ]
    assert problem() == ""
    answers["sprio"] = failure
    clock.now_s += RIGHTS_LAST_S - 1
    # Job 3 is not in the answer that was last known.
    assert jobs() == (*before[:2], before[2]._replace(priority_class="3"))
    assert problem().startswith(("sprio: lists none", "it failed; look at it"))
    clock.now_s += 1
    assert [job.priority_class for job in jobs()] == ["1", "2", "3"]
    answers["sprio"] = FACTORS
    assert (jobs(), problem()) == (before, "")


@pytest.mark.parametrize("failure", [*FAILURES, SlurmIsSilent("it is down", hint="start slurmdbd")])
def test_preempting_qos_last_known_count_for_a_while_if_sacctmgr_fails(
    answers: Answers, failure: bytes | CannotAskSlurm
) -> None:
    jobs, problem, slurm, clock = reading()
    known = slurm.traits().limits.qos
    assert known["high"].preempts == {"low"}
    answers["sacctmgr"] = failure
    clock.now_s += LIMITS_LAST_S
    limits = slurm.traits().limits
    assert (limits.qos, [job.priority_class for job in jobs()]) == (known, ["", "", ""])
    assert problem() == limits.qos_problem != ""
    clock.now_s += RIGHTS_LAST_S - LIMITS_LAST_S
    assert slurm.traits().limits.qos == {}
    assert [job.priority_class for job in jobs()] == ["1", "2", "3"]
    answers["sacctmgr"] = QOS
    clock.now_s += scheduler.QOS_AGAIN_S
    assert slurm.traits().limits.qos == known
    assert ([job.priority_class for job in jobs()], problem()) == (["", "", ""], "")


def test_qos_that_do_not_preempt_need_no_table(answers: Answers) -> None:
    answers |= {"sacctmgr": FAILURES[1], "scontrol": CONFIG.replace(b"preempt/qos", b"preempt/none")}
    jobs, problem, slurm, _ = reading()
    assert slurm.traits().limits.qos_problem == SiteLimits().qos_problem == problem()
    assert [job.priority_class for job in jobs()] == ["", "", ""]
