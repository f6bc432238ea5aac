"""OpenPBS's hooks: no real server is at hand, so a module `pbs` with what its documentation names stands in for it."""

import runpy
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

BROKEN = object()


class Said(SystemExit):
    """What an event ends with: accepted, or rejected with a message."""


class Resources(dict[str, Any]):
    """A resource that was never set is None."""

    def __missing__(self, key: str) -> None:
        return None


def run(hook: str, repository: Path, monkeypatch: pytest.MonkeyPatch, **event: Any) -> str:
    """Return why the hook rejects the event, "" if it accepts it."""

    def accept() -> None:
        raise Said("")

    def reject(message: str) -> None:
        raise Said(message)

    module = ModuleType("pbs")
    usual = {"accept": accept, "reject": reject, "requestor": "alice", "requestor_host": "head"}
    told = SimpleNamespace(**usual | event)
    server = SimpleNamespace(managers="ops@head", operators=None)
    vars(module).update(event=lambda: told, server=lambda: server, logmsg=lambda *_: None, LOG_WARNING=1)
    monkeypatch.setitem(sys.modules, "pbs", module)
    with pytest.raises(Said) as caught:
        runpy.run_path(str(repository / "deploy" / "openpbs" / f"{hook}.py"))
    return str(caught.value)


def test_a_job_waits_for_its_time(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(value: object) -> str:
        job = SimpleNamespace(Resource_List=Resources(offpeak_begin=value))
        return run("offpeak_runjob", repository, monkeypatch, job=job)

    assert said(int(time.time()) + 3600).startswith("offpeak: deferred until ")
    assert said(int(time.time()) - 1) == ""
    assert said(None) == said(0) == said("no number") == ""
    assert run("offpeak_runjob", repository, monkeypatch, job=BROKEN) == ""


@pytest.mark.parametrize(
    ("value", "trouble"),
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
        ("dealy=12h", "OFFPEAK=dealy=12h: not a word of offpeak"),
    ],
)
def test_words_are_judged_at_submission(
    value: str, trouble: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = SimpleNamespace(Variable_List={"OFFPEAK": value}, Resource_List=Resources())
    said = run("offpeak_queuejob", repository, monkeypatch, job=job)
    assert said.startswith(trouble)
    assert bool(said) == bool(trouble)
    assert job.Resource_List["offpeak_prio"] == 0.0


def test_what_cannot_be_judged_passes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("offpeak_queuejob", repository, monkeypatch, job=BROKEN) == ""
    assert run("offpeak_modifyjob", repository, monkeypatch, job=BROKEN, job_o=BROKEN) == ""


@pytest.mark.parametrize(
    ("who", "new", "refused"), [("alice", 5, True), ("alice", -5, False), ("alice", None, False), ("ops", 5, False)]
)
def test_only_managers_raise_priorities(
    who: str, new: int | None, refused: bool, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, old = SimpleNamespace(Priority=new), SimpleNamespace(Priority=None)
    said = run("offpeak_modifyjob", repository, monkeypatch, requestor=who, job=job, job_o=old)
    assert bool(said) == refused
