"""Reads the options of `qsub` as jobs of the simulated scheduler.

The lines `sleep SECONDS` of a script set the run time of the job. `qsub -L tasks=2:lprocs=4:place=node` becomes the
numbered fields of a Torque job's req_information. The server's hooks check jobs as OpenPBS does: a module `pbs` hands
them values of the server's own types. Observed with a real 23.06: a priority and a list of managers are objects that
are neither numbers nor texts, only str() converts them to text; an unset value is None; a numeric resource is a number.
"""

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from offpeak.plugin.pbs.commands import limit_s
from offpeak.plugin.pbs.jobs import chunks_of, parse_tasks
from offpeak.sim_backend.pbs_standin.pbs import HOOK_ERROR, OPENPBS, Pbs, PbsError
from offpeak.sim_backend.scheduler.cluster import SimJob

NAMES = {"tasks": "task_count", "feature": "features"}
"""What the option and the job's field call differently."""
FLAGS = "hIVzXf"
"""Options without a value."""
_SLEEP = re.compile(r"^\s*sleep\s+([\d.]+)", re.MULTILINE)
_SPLIT = re.compile(r",(?=[^,=]+=)")
_ARRAY = re.compile(r"(\d+)-(\d+)")
MODIFYJOB, QUEUEJOB = "offpeak_modifyjob", "offpeak_queuejob"


def req_information(options: list[str]) -> dict[str, str]:
    """Return the fields of all `-L` options, in their order."""
    fields: dict[str, str] = {}
    for at, text in enumerate(options):
        found = {"task_count": "1", "lprocs": "1"}
        for argument in text.split(":"):
            name, sign, value = argument.partition("=")
            if name == "place":
                place, _, count = value.partition("=")
                found[place] = count or "1"
            elif sign:
                found[NAMES.get(name, name)] = value
        fields |= {f"{name}.{at}": value for name, value in found.items()}
    return fields


@dataclass
class Options:
    """The options of a command: the last value of each letter, all of `-l`, `-v` and `-L`, and what follows them."""

    values: dict[str, str] = field(default_factory=dict)
    wants: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def options_of(arguments: Sequence[str], *, flags: str = FLAGS) -> Options:
    """Return the options of a command line."""
    found, left = Options(), iter(arguments)
    for argument in left:
        if not argument.startswith("-") or argument == "-":
            found.rest = [argument, *left]
        elif argument[1] in flags:
            found.values.update(dict.fromkeys(argument[1:], ""))
        else:
            letter, value = argument[1], argument[2:] or next(left, "")
            if letter == "L":
                found.tasks.append(value)
            elif letter in "lvW":
                {"l": found.wants, "v": found.variables, "W": found.extra}[letter].update(pairs(value))
            else:
                found.values[letter] = value
    return found


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Give names and values of `a=1,b="x,y",c=2:ppn=4`."""
    for part in _SPLIT.split(text):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip().strip('"')


def date_time_s(text: str) -> int:
    """Return the Unix second of CCYYMMDDhhmm.SS by the clock of Greenwich."""
    form = "%Y%m%d%H%M.%S" if "." in text else "%Y%m%d%H%M"
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())


def submitted(pbs: Pbs, arguments: Sequence[str], script: str, user: str, now_s: float) -> list[SimJob]:
    """Add the submitted job, or one job for each task of an array."""
    options = options_of(arguments)
    array = _ARRAY.match(options.values.get("J" if pbs.kind == OPENPBS else "t", ""))
    indices: list[int | None] = list(range(int(array[1]), int(array[2]) + 1)) if array else [None]
    first = pbs.cluster.submit(make_job(pbs, options, script, user, now_s, indices[0]))
    others = [make_job(pbs, options, script, user, now_s, index) for index in indices[1:]]
    for other in others:
        other.number = first.number
        pbs.cluster.submit(other)
    return [first, *others]


def make_job(pbs: Pbs, options: Options, script: str, user: str, now_s: float, index: int | None) -> SimJob:
    """Return the job that the options describe."""
    wants = options.wants
    limit = limit_s(wants.get("walltime"))
    layout = parse_tasks(tasks) if (tasks := req_information(options.tasks)) else None
    plain = f"{wants['procs']}:ppn=1" if "procs" in wants else f"1:ncpus={wants.get('ncpus', '1')}"
    request = "" if layout else wants.get("select") or wants.get("nodes") or plain
    naps = [float(each) for each in _SLEEP.findall(script)]
    place = wants.get("place", "free")
    after = options.extra.get("depend", "")
    return SimJob(
        number=0,
        index=index,
        name=options.values.get("N", "STDIN"),
        user=user,
        queue=options.values.get("q", pbs.queue),
        chunks=layout.chunks if layout else chunks_of(request),
        run_s=sum(naps) if naps else float(limit or 60),
        submit_s=int(now_s),
        limit_s=limit,
        apart=layout.apart if layout else "scatter" in place if pbs.kind == OPENPBS else "procs" not in wants,
        whole_nodes=layout.whole_nodes if layout else "excl" in place,
        priority=int(options.values.get("p", "0")),
        begin_s=date_time_s(options.values["a"]) if "a" in options.values else 0,
        holds={"u"} if "h" in options.values else set(),
        after=tuple(int(each) for each in re.findall(r":(\d+)", after)),
        wants=dict(wants),
        may_be_requeued=options.values.get("r", "y") == "y",
        tasks=tasks,
        attributes={
            "request": request,
            "account": options.values.get("A", ""),
            "depend": after,
            "variables": "\x1f".join(f"{name}={value}" for name, value in options.variables.items()),
        },
    )


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

    def end(message: str) -> NoReturn:
        raise _Over(message)

    managers, operators = (acl(names) if names else None for names in (event.managers, event.operators))
    server = SimpleNamespace(managers=managers, operators=operators)
    event_of_hook = SimpleNamespace(
        job=event.job,
        job_o=event.job_o,
        requestor=event.requestor,
        requestor_host=event.requestor_host,
        accept=lambda: end(""),
        reject=end,
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
