"""The server's hooks: each is run as OpenPBS runs it, with a module `pbs` that hands values of the server's own types.

Observed with a real 23.06: a priority and a list of managers are objects that are neither numbers nor texts, only str()
converts them to text; an unset value is None; a numeric resource is a number.
"""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from sim_backend.pbs_standin.pbs import HOOK_ERROR, OPENPBS, Pbs, PbsError
from sim_backend.scheduler.cluster import SimJob

MODIFYJOB, QUEUEJOB = "offpeak_modifyjob", "offpeak_queuejob"


class _GenericAttr:
    """A value of the server's own type: no number, and no text."""

    def __init__(self, value: object) -> None:
        self._value = str(value)

    def __str__(self) -> str:
        return self._value

    __repr__ = __str__


class priority(_GenericAttr):  # noqa: N801
    """What a hook is handed as a job's priority; the name stands in its error messages."""


class acl(_GenericAttr):  # noqa: N801
    """What a hook is handed as the server's managers."""


class Resources(dict[str, Any]):
    """A job's resources; one that was never set is None."""

    def __missing__(self, key: str) -> None:
        return None


@dataclass(frozen=True)
class HookEvent:
    """The event of a hook. `job` is the change, or the new job; `job_o` the current job, None at its submission."""

    job: object
    job_o: object = None
    requestor: str = "alice"
    requestor_host: str = "head"
    managers: str = ""
    operators: str = ""
    log: list[str] = field(default_factory=list)


class _Over(BaseException):
    """The hook has accepted or rejected the event."""


def run_hook(source: str, event: HookEvent) -> str:
    """Return why the hook rejects the event, "" if it accepts it. Other exceptions of the hook are raised."""
    module = ModuleType("pbs")
    server = SimpleNamespace(managers=_listed(event.managers), operators=_listed(event.operators))
    event_of_hook = SimpleNamespace(
        job=event.job,
        job_o=event.job_o,
        requestor=event.requestor,
        requestor_host=event.requestor_host,
        accept=lambda: _end(""),
        reject=_end,
    )
    vars(module).update(event=lambda: event_of_hook, server=lambda: server, LOG_ERROR=3, LOG_WARNING=4)
    vars(module)["logmsg"] = lambda _, text: event.log.append(text)

    def imported(name: str, *rest: Any) -> Any:
        return module if name == "pbs" else builtins.__import__(name, *rest)

    try:
        exec(source, {"__name__": "__main__", "__builtins__": {**vars(builtins), "__import__": imported}})
    except _Over as over:
        return str(over)
    return ""


def check_change(pbs: Pbs, job: SimJob, user: str, values: Mapping[str, str]) -> None:
    """Run the hook for a change of a job; Refused if it rejects the change."""
    new = values.get("p")
    changed = SimpleNamespace(Priority=None if new is None else priority(new), Resource_List=Resources())
    _check(pbs, MODIFYJOB, HookEvent(changed, SimpleNamespace(Priority=priority(job.priority)), user), pbs.job_id(job))


def check_submission(pbs: Pbs, variables: Mapping[str, str], user: str) -> None:
    """Run the hook for a new job; Refused if it rejects the job."""
    job = SimpleNamespace(Priority=priority(0), Variable_List=dict(variables), Resource_List=Resources())
    _check(pbs, QUEUEJOB, HookEvent(job, requestor=user), "")


def _check(pbs: Pbs, name: str, event: HookEvent, job: str) -> None:
    if pbs.kind != OPENPBS or not pbs.hooks.get(name):
        return
    whole = HookEvent(event.job, event.job_o, event.requestor, pbs.host, pbs.attributes.get("managers", ""))
    try:
        refusal = run_hook(pbs.hooks[name], whole)
    except Exception:
        refusal = f"request rejected as filter hook '{name}' encountered an exception. Please inform Admin"
    if refusal:
        raise PbsError(HOOK_ERROR, f"{refusal} {job}".strip())


def _listed(names: str) -> acl | None:
    return acl(names) if names else None


def _end(message: str) -> NoReturn:
    raise _Over(message)
