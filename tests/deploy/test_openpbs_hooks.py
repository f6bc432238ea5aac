"""OpenPBS's hooks, run as the stand-in's server runs them: with values of the server's own types."""

import subprocess
import time
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pbs_standin import standin

from offpeak.model.flexibility import parse_user_hints
from offpeak.plugin.pbs.commands import hints_comment
from offpeak.plugin.pbs.openpbs_server import HOOK_FAILURES
from offpeak.plugin.queue_hook.start_times import SUBMISSION_HOLD_S
from offpeak.sim_backend.pbs_standin.submission import HookEvent, Resources, priority, run_hook

BROKEN = object()


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which hooks report their failures."""
    monkeypatch.setenv(HOOK_FAILURES, str(tmp_path / "failures"))
    return tmp_path / "failures"


def run(hook: str, repository: Path, *, managers: str = "ops@head", **event: Any) -> str:
    """Return why the hook rejects the event, "" if it accepts it."""
    source = (repository / "deploy" / "openpbs" / f"{hook}.py").read_text()
    return run_hook(source, HookEvent(managers=managers, **event))


def test_a_job_waits_for_its_time(repository: Path, failures: Path) -> None:
    def refusal(value: object) -> str:
        job = SimpleNamespace(Resource_List=Resources(offpeak_begin=value))
        return run("offpeak_runjob", repository, job=job)

    assert refusal(int(time.time()) + 3600).startswith("offpeak: deferred until ")
    assert refusal(int(time.time()) - 1) == ""
    assert refusal(None) == refusal(0) == ""
    assert not failures.exists()
    # After any error the job starts, and the error is logged.
    assert refusal("no number") == run("offpeak_runjob", repository, job=BROKEN) == ""
    assert "AttributeError" in (failures / "offpeak_runjob").read_text()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("delay=12h", ""),
        ("delay=1.5h;deadline=2026-11-22T08:00", ""),
        ("deadline=2026-11-22T08:00:00+01:00", ""),
        ("now", ""),
        ("offpeak:delay=30min", ""),
        ("", ""),
        ("delay=12", "OFFPEAK=delay=12: write it like delay=12h, with s, min, h or d"),
        ("delay=0.0001s", "OFFPEAK=delay=0.0001s: a delay is in whole seconds"),
        ("deadline=tomorrow", "OFFPEAK=deadline=tomorrow: write it like deadline="),
        ("deadline=2026-02-30T08:00", "OFFPEAK=deadline=2026-02-30T08:00: there is no such time"),
        ("deadline=0001-01-01T00:00", "OFFPEAK=deadline=0001-01-01T00:00: '0001-01-01T00:00' is not between"),
        ("dealy=12h", "OFFPEAK=dealy=12h: unknown hint"),
    ],
)
def test_hints_are_checked_at_submission(value: str, error: str, repository: Path) -> None:
    job = SimpleNamespace(Variable_List={"OFFPEAK": value}, Resource_List=Resources())
    refusal = run("offpeak_queuejob", repository, job=job)
    assert refusal.startswith(error)
    assert bool(refusal) == bool(error)
    assert job.Resource_List["offpeak_prio"] == 0.0


@pytest.mark.parametrize(
    ("value", "begin", "is_held"),
    [
        ("delay=12h", None, True),
        ("cap;offpeak:deadline=2999-01-01T00:00", None, True),
        ("delay=12h", 1_900_000_000, False),
        ("delay=12h;now", None, False),
        ("cap", None, False),
    ],
)
def test_a_job_that_may_wait_waits_for_the_first_decision(
    value: str, begin: int | None, is_held: bool, repository: Path
) -> None:
    job = SimpleNamespace(Variable_List={"OFFPEAK": value}, Resource_List=Resources(), Execution_Time=begin)
    before_s = time.time()
    assert run("offpeak_queuejob", repository, job=job) == ""
    assert ("offpeak_begin" in job.Resource_List) == is_held
    if is_held:
        assert before_s + SUBMISSION_HOLD_S - 2 <= job.Resource_List["offpeak_begin"] <= time.time() + SUBMISSION_HOLD_S


YEARS = st.sampled_from(("0001", "1969", "1970", "2026", "2999", "3000", "9999"))
DAYS = st.sampled_from(("01-01T00:00", "02-29T12:00", "12-31T23:59:59", "12-31T23:59:61"))
OFFSETS = st.sampled_from(("", "Z", "+14:00", "-23:59", "+24:00", "+9:00"))
NUMBERS = st.one_of(st.integers(0, 10**40).map(str), st.floats(0, 1e308).map("{:f}".format), st.just("9" * 5000))
UNITS = st.sampled_from(("s", "min", "m", "h", "d", "y", ""))
HINTS = st.one_of(
    st.builds("deadline={}-{}{}".format, YEARS, DAYS, OFFSETS),
    st.builds("{}={}{}".format, st.sampled_from(("delay", "checkpoint", "offpeak:delay")), NUMBERS, UNITS),
    st.builds("checkpoint={}@10{}".format, st.sampled_from(("USR1", "KILL", "")), UNITS),
    st.sampled_from(("now", "cap", "cap=1", "delay=offpeak:12h", "offpeak:offpeak:now", "key=1")),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HINTS)
def test_a_submission_that_is_accepted_is_one_that_the_agent_understands(
    repository: Path, failures: Path, value: str
) -> None:
    job = SimpleNamespace(Variable_List={"OFFPEAK": value}, Resource_List=Resources())
    refusal = run("offpeak_queuejob", repository, job=job)
    assert refusal or parse_user_hints(hints_comment(value), UTC).errors == ()
    assert not failures.exists()


def test_a_submission_that_cannot_be_judged_passes(repository: Path, failures: Path) -> None:
    assert run("offpeak_queuejob", repository, job=BROKEN) == ""
    assert "AttributeError" in (failures / "offpeak_queuejob").read_text()


def test_a_change_that_cannot_be_judged_is_refused(repository: Path, failures: Path) -> None:
    refusal = run("offpeak_modifyjob", repository, job=BROKEN, job_o=BROKEN)
    assert refusal == "offpeak: whether this raises the job's priority is not known, as a hook failed: ask an admin"
    assert "AttributeError" in (failures / "offpeak_modifyjob").read_text()
    # Of no concern to it: what sets no priority, and what the server itself changes.
    assert run("offpeak_modifyjob", repository, job=SimpleNamespace(Priority=None), job_o=BROKEN) == ""
    changed = SimpleNamespace(Priority=priority(5))
    assert run("offpeak_modifyjob", repository, job=changed, job_o=BROKEN, requestor="Scheduler") == ""


@pytest.mark.parametrize(
    ("who", "managers", "refused"),
    [
        ("alice", "ops@head", True),
        ("ops", "ops@head", False),
        ("ops", "bob@head,ops@head.site.org", False),
        ("ops", "ops@*", False),
        ("ops", "ops@login", True),
        ("alice", "", True),
        ("root", "", False),
    ],
)
def test_only_managers_raise_priorities(who: str, managers: str, refused: bool, repository: Path) -> None:
    def refusal(new: int | None, old: int | None = None) -> str:
        job = SimpleNamespace(Priority=None if new is None else priority(new))
        job_o = SimpleNamespace(Priority=None if old is None else priority(old))
        return run("offpeak_modifyjob", repository, requestor=who, managers=managers, job=job, job_o=job_o)

    assert bool(refusal(5)) == bool(refusal(5, 4)) == refused
    assert refusal(-5) == refusal(None) == refusal(5, 5) == refusal(3, 5) == ""


def test_a_user_raises_no_priority_at_the_server(tmp_path: Path, failures: Path) -> None:
    with standin("openpbs", tmp_path) as running:
        running.run("qmgr", "-c", "set server scheduling = False")
        job = running.run("qsub", user="alice", stdin="sleep 100\n")

        def altered(user: str, value: str) -> tuple[int, str]:
            arguments = (running.programs / "qalter", "-p", value, job)
            environment = {"PATH": running.path, "PBS_STANDIN_USER": user}
            done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
            return done.returncode, done.stderr

        refused = f"qalter: offpeak: a job's priority is raised by managers only {job}\n"
        assert altered("alice", "1000") == (32, refused)
        assert altered("alice", "-10") == altered("root", "1000") == (0, "")
        assert running.do(lambda pbs: [each.priority for each in pbs.cluster.jobs.values()]) == [1000]
        assert not failures.exists()
        with pytest.raises(subprocess.CalledProcessError) as caught:
            running.run("qsub", "-v", "OFFPEAK=dealy=3", user="alice", stdin="sleep 1\n")
        assert caught.value.stderr.startswith("qsub: OFFPEAK=dealy=3: unknown hint")
