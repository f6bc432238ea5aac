"""The commands: the effect of each on the server, and its output.

`pbsnodes -m`: Torque has a node's daemon shut it down, or wakes it by a packet.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.plugin.pbs.openpbs_server import BEGIN_RESOURCE, NODE_RESOURCE, PRIORITY_RESOURCE
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.pbs_standin.output import (
    answer_json,
    jobs_text,
    pbsnodes_json,
    pbsnodes_xml,
    qstat_json,
    qstat_text,
    qstat_xml,
    queues_text,
    server_text,
)
from offpeak.sim_backend.pbs_standin.pbs import (
    BAD_STATE,
    HOOK_ERROR,
    NO_ATTRIBUTE,
    OPENPBS,
    POWER,
    REFUSED,
    TORQUE,
    UNKNOWN_JOB,
    UNKNOWN_NODE,
    Pbs,
    PbsError,
    PbsReply,
    letter_of,
    version_of,
)
from offpeak.sim_backend.pbs_standin.reservations import book, rstat
from offpeak.sim_backend.pbs_standin.submission import (
    Options,
    check_change,
    check_submission,
    date_time_s,
    options_of,
    submitted,
)
from offpeak.sim_backend.scheduler.cluster import SimJob

RUNNING, SHUTDOWN = "running", "shutdown"
READ_ONLY = frozenset({PRIORITY_RESOURCE, BEGIN_RESOURCE})
HISTORY = "job_history_enable"
NOT_RERUNNABLE = 15034
SELECTED = {TORQUE: frozenset("CEHQRTW"), OPENPBS: frozenset("BEFHMQRSTUWX")}
"""The states that qselect takes: that of Torque does not take S, though its server has suspended jobs."""
NO_HISTORY = "qstat: PBS is not configured to maintain job history \n"

_ORDER = re.compile(r"\s*(\w+)\s+(\w+)(?:\s+([^\s=]+))?\s*(.*)", re.DOTALL)
_PAIR = re.compile(r'\s*([\w.]+)\s*(\+=|-=|=)\s*("[^"]*"|[^,]*?)\s*(?:,|$)')
SHORT = {"s": "set", "l": "list", "p": "print", "c": "create", "d": "delete", "u": "unset", "i": "import"}
OBJECTS = {"s": "server", "n": "node", "q": "queue", "r": "resource", "h": "hook"}
POWER_HOOK = "PBS_power"
STATES = frozenset({"sleep", "offline"})


@dataclass(frozen=True)
class PbsCall:
    """One call of a program by a user; `text` is its standard input."""

    program: str
    arguments: tuple[str, ...]
    user: str
    text: str
    now_s: float


def answer(pbs: Pbs, call: PbsCall) -> PbsReply:
    """Return what the program answers."""
    pbs.step(call.now_s)
    try:
        return PROGRAMS[call.program](pbs, call)
    except PbsError as problem:
        return PbsReply(err=f"{call.program}: {problem}\n", code=problem.code)


def _qstat(pbs: Pbs, call: PbsCall) -> PbsReply:
    if "--version" in call.arguments:
        return version_of(pbs.kind)
    options = options_of(call.arguments, flags="xtfBQan1")
    if "B" in options.values or "Q" in options.values:
        return PbsReply((server_text if "B" in options.values else queues_text)(pbs, call.now_s))
    jobs = [job for name in options.rest for job in _named(pbs, name)]
    jobs = [job for job in (jobs if options.rest else pbs.cluster.jobs.values()) if pbs.shows(job, call.user)]
    if pbs.kind == TORQUE:
        return PbsReply(qstat_xml(pbs, jobs, call.now_s) if "x" in options.values else jobs_text(pbs, jobs, call.now_s))
    complaint = ""
    if "x" not in options.values:
        jobs = [job for job in jobs if job.state is not JobState.ENDED]
    elif pbs.attributes.get(HISTORY) != "True":
        # A server shows no job at all then, not even those that wait, and exits with 0.
        jobs, complaint = [], NO_HISTORY
    if options.values.get("F") == "json":
        # Of several jobs that are named a real server's qstat prints the first only.
        jobs = jobs if len(options.rest) < 2 else jobs[:1]
        if any("=" not in part for job in jobs for part in job.attributes["variables"].split("\x1f") if part):
            # A real server's qstat ends at the first variable without a value, before it prints anything.
            return PbsReply(err="qstat: json error\n", code=1)
        return PbsReply(qstat_json(pbs, jobs, call.now_s), complaint)
    if complaint:
        return PbsReply(err=complaint)
    return PbsReply((qstat_text if "f" in options.values else jobs_text)(pbs, jobs, call.now_s))


def _qselect(pbs: Pbs, call: PbsCall) -> PbsReply:
    options = options_of(call.arguments, flags="TJxH")
    wanted = options.values.get("s", "")
    without, letters = wanted.startswith(".ne."), wanted.removeprefix(".ne.").removeprefix(".eq.")
    if not letters or set(letters) - SELECTED[pbs.kind] or ("T" in options.values and pbs.kind == TORQUE):
        return PbsReply(err="qselect: illegal -s value\nusage: qselect [-a [op]date_time] ...\n", code=2)
    jobs = [job for job in pbs.cluster.jobs.values() if pbs.shows(job, call.user)]
    if pbs.kind == OPENPBS:
        jobs = [job for job in jobs if job.state is not JobState.ENDED]
        # Without -T an array represents its subjobs; with it the server ignores the operator for them.
        jobs = [job for job in jobs if job.index is None or "T" in options.values]
    found = [job for job in jobs if (letter_of(pbs, job, call.now_s) in letters) is not without]
    return PbsReply("".join(f"{pbs.job_id(job)}\n" for job in found).encode())


def _named(pbs: Pbs, name: str) -> list[SimJob]:
    jobs = pbs.named(name)
    if not jobs:
        message = "Unknown Job Id Error" if pbs.kind == TORQUE else "Unknown Job Id"
        raise PbsError(UNKNOWN_JOB, f"{message} {name}")
    return jobs


def _qsub(pbs: Pbs, call: PbsCall) -> PbsReply:
    check_submission(pbs, options_of(call.arguments).variables, call.user)
    jobs = submitted(pbs, call.arguments, call.text, call.user, call.now_s)
    pbs.step(call.now_s)
    number = f"{jobs[0].number}[].{pbs.host}" if jobs[0].index is not None else pbs.job_id(jobs[0])
    return PbsReply(f"{number}\n".encode())


def _of_each(pbs: Pbs, call: PbsCall, options: Options, change: Callable[[SimJob, Options], None]) -> PbsReply:
    """Change each of the jobs that are named, one after the other; what fails of one does not keep the others."""
    complaints, code = "", 0
    for name in options.rest:
        try:
            for job in _named(pbs, name):
                if call.user not in pbs.managers and call.user != job.user:
                    raise PbsError(REFUSED, f"Unauthorized Request  {name}")
                if job.state is JobState.ENDED and pbs.kind == OPENPBS:
                    raise PbsError(15139, f"Job has finished {name}")
                if job.state is JobState.ENDED:
                    raise PbsError(BAD_STATE, f"Request invalid for state of job {name}")
                change(job, options)
        except PbsError as problem:
            complaints += f"{call.program}: {problem}\n"
            code = problem.code
    return PbsReply(err=complaints, code=code)


def _qalter(pbs: Pbs, call: PbsCall) -> PbsReply:
    options = options_of(call.arguments)

    def change(job: SimJob, options: Options) -> None:
        job.may_be_requeued = options.values.get("r", "ny"[job.may_be_requeued]) == "y"
        if job.state is not JobState.PENDING and set(options.values) != {"r"}:
            raise PbsError(15015, f"Cannot modify attribute while job running {pbs.job_id(job)}")
        for name in filter(READ_ONLY.__contains__, options.wants):
            if name not in pbs.resources:
                raise PbsError(NO_ATTRIBUTE, f"Unknown resource Resource_List.{name}")
            if call.user not in pbs.managers:
                refusal = "Cannot set attribute, read only or insufficient permission"
                raise PbsError(15003, f"{refusal}  Resource_List.{name}")
        check_change(pbs, job, call.user, options.values)
        job.wants |= options.wants
        job.priority = int(options.values.get("p", job.priority))
        if "a" in options.values:
            job.begin_s = date_time_s(options.values["a"])
        job.comment = options.extra.get("comment", job.comment)

    return _of_each(pbs, call, options, change)


def _hold(pbs: Pbs, call: PbsCall) -> PbsReply:
    # Here -h has a value.
    options = options_of(call.arguments, flags="")
    letters = set(options.values.get("h", "u"))

    def change(job: SimJob, _options: Options) -> None:
        if call.user not in pbs.managers and letters != {"u"}:
            raise PbsError(REFUSED, f"Unauthorized Request  {pbs.job_id(job)}")
        job.holds = job.holds | letters if call.program == "qhold" else job.holds - letters
        pbs.cluster.cycle_is_due = pbs.cluster.cycle_is_due or call.program == "qrls"

    return _of_each(pbs, call, options, change)


def _qrerun(pbs: Pbs, call: PbsCall) -> PbsReply:
    def change(job: SimJob, _options: Options) -> None:
        if not job.may_be_requeued:
            raise PbsError(NOT_RERUNNABLE, f"Job is not rerunable {pbs.job_id(job)}")
        pbs.cluster.requeue(job, call.now_s)

    return _of_running(pbs, call, options_of(call.arguments), change)


def _qsig(pbs: Pbs, call: PbsCall) -> PbsReply:
    def change(job: SimJob, options: Options) -> None:
        job.attributes["signal"] = options.values.get("s", "SIGTERM")

    return _of_running(pbs, call, options_of(call.arguments), change)


def _of_running(pbs: Pbs, call: PbsCall, options: Options, change: Callable[[SimJob, Options], None]) -> PbsReply:
    def change_if_running(job: SimJob, options: Options) -> None:
        if call.user not in pbs.managers:
            raise PbsError(REFUSED, f"Unauthorized Request  {pbs.job_id(job)}")
        if job.state is not JobState.RUNNING:
            raise PbsError(BAD_STATE, f"Request invalid for state of job {pbs.job_id(job)}")
        change(job, options)

    return _of_each(pbs, call, options, change_if_running)


def _qorder(pbs: Pbs, call: PbsCall) -> PbsReply:
    (one,), (other,) = (_named(pbs, name) for name in call.arguments)
    if one is other:
        raise PbsError(BAD_STATE, "a server of Torque 4.2 would hang now, for ever")
    if call.user not in pbs.managers and {one.user, other.user} != {call.user}:
        raise PbsError(REFUSED, f"Unauthorized Request  {call.arguments[0]}")
    one.rank, other.rank = other.rank, one.rank
    return PbsReply()


def _pbsnodes(pbs: Pbs, call: PbsCall) -> PbsReply:
    if "--version" in call.arguments:
        return version_of(pbs.kind)
    if pbs.kind == OPENPBS and "-x" in call.arguments:
        return PbsReply(err="pbsnodes: invalid option -- 'x'\nusage:\tpbsnodes [-{o|r}][-C comment] ...\n", code=1)
    if pbs.kind == TORQUE and "-F" in call.arguments:
        return PbsReply(err="pbsnodes: invalid option -- 'F'\n", code=1)
    options = options_of(call.arguments, flags="axcorldv")
    names = options.rest or list(pbs.cluster.nodes)
    if pbs.kind == OPENPBS and options.values.get("F") == "json" and set(names) - pbs.cluster.nodes.keys():
        # No error: a record that says so, and exit code 0.
        unknown_nodes = {name: {name: "Unknown node "} for name in names if name not in pbs.cluster.nodes}
        return PbsReply(answer_json(pbs, call.now_s, "nodes", unknown_nodes))
    if unknown := [name for name in names if name not in pbs.cluster.nodes]:
        raise PbsError(UNKNOWN_NODE, f"Unknown node  MSG=cannot locate specified node {unknown[0]}")
    nodes = [pbs.cluster.nodes[name] for name in names]
    if "m" in options.values:
        if pbs.kind == OPENPBS:
            return PbsReply(err="pbsnodes: invalid option -- 'm'\n", code=1)
        # A real Torque 6.1 always ends with 0, and with an error although it has acted.
        order, errors = options.values["m"], {}
        for node in nodes:
            if call.user not in pbs.managers:
                errors[node.name] = "Unauthorized Request  MSG=error in permissions (PERM_OPorMGR)"
            elif node.used and order != RUNNING:
                errors[node.name] = "Can't change power state on a node which has running jobs."
            else:
                node.power_order = order
                errors |= {} if order == RUNNING else {node.name: "Job not found"}
        lines = (f"Error setting node power state for {name} - {why}\n" for name, why in errors.items())
        return PbsReply(err="".join(lines))
    if {"o", "c", "r", "N"} & options.values.keys():
        if call.user not in pbs.managers:
            raise PbsError(REFUSED, f"Unauthorized Request  {names[0]}")
        for node in nodes:
            node.shut = node.shut | {"offline"} if "o" in options.values else node.shut - {"offline"}
            node.note = options.values.get("N", node.note)
        return PbsReply()
    if pbs.kind == OPENPBS:
        return PbsReply(pbsnodes_json(pbs, nodes, call.now_s))
    return PbsReply(pbsnodes_xml(pbs, nodes, call.now_s))


def _rstat(pbs: Pbs, call: PbsCall) -> PbsReply:
    if pbs.kind == TORQUE:
        return PbsReply(err="pbs_rstat: command not found\n", code=127)
    return rstat(pbs, options_of(call.arguments, flags="fFBS").rest, call.now_s)


def _rdel(pbs: Pbs, call: PbsCall) -> PbsReply:
    for name in call.arguments:
        del pbs.reservations[name]
    return PbsReply()


def _qmgr(pbs: Pbs, call: PbsCall) -> PbsReply:
    orders = [call.arguments[1]] if call.arguments[:1] == ("-c",) else call.text.splitlines()
    answers = [qmgr(pbs, order, call.user) for order in orders if order.strip()]
    return PbsReply(b"".join(each.out for each in answers), "".join(each.err for each in answers), answers[-1].code)


PROGRAMS: Mapping[str, Callable[[Pbs, PbsCall], PbsReply]] = {
    "qstat": _qstat,
    "qselect": _qselect,
    "qsub": _qsub,
    "qalter": _qalter,
    "qhold": _hold,
    "qrls": _hold,
    "qdel": lambda pbs, call: _of_each(
        pbs, call, options_of(call.arguments), lambda job, _: pbs.cluster.end(job, call.now_s)
    ),
    "qorder": _qorder,
    "qrerun": _qrerun,
    "qsig": _qsig,
    "pbsnodes": _pbsnodes,
    "qmgr": _qmgr,
    "pbs_rstat": _rstat,
    "pbs_rsub": lambda pbs, call: book(pbs, options_of(call.arguments), call.user, call.now_s),
    "pbs_rdel": _rdel,
}


def qmgr(pbs: Pbs, order: str, user: str) -> PbsReply:
    """Execute an order to qmgr and return the reply; PbsError if the user may not or the server cannot."""
    match = _ORDER.match(order)
    verb, what = (match[1], match[2]) if match else ("", "")
    verb, what = SHORT.get(verb, verb), OBJECTS.get(what, what)
    if what == "hook" and user not in pbs.roots:
        # A list ends with 0 all the same; managers are no exception.
        refused = f"{user}@{pbs.host} is unauthorized to access hooks data from server {pbs.host}\n"
        return PbsReply(err=refused, code=0 if verb in ("list", "print") else HOOK_ERROR % 256)
    if verb not in ("list", "print") and user not in pbs.managers:
        raise PbsError(REFUSED, "Unauthorized Request")
    name, rest = (match[3] or "", match[4]) if match else ("", "")
    if (verb, what) == ("import", "hook") and pbs.hooks.get(name):
        return PbsReply(_made(pbs.hooks, verb, "Hook", name, rest).encode(), f"hook '{name}' contents overwritten\n")
    if what == "server" and verb in ("set", "unset", "list"):
        text = _server(pbs, verb, f"{name} {rest}")
    elif what == "node" and verb in ("set", "unset"):
        text = _node(pbs, verb, name, rest)
    elif (verb, what, name) == ("set", "pbshook", POWER_HOOK):
        text = _server(pbs, verb, f"{POWER} = {rest.partition('=')[2].strip()}")
    elif (verb, what) == ("list", "sched"):
        text = f"Sched default\n    sched_host = {pbs.host}\n    state = {pbs.sched_state}\n\n"
    else:
        text = _made(pbs.resources if what == "resource" else pbs.hooks, verb, what.capitalize(), name, rest)
    return PbsReply(text.encode())


def _server(pbs: Pbs, verb: str, rest: str) -> str:
    if verb == "list":
        return "\n".join([f"Server {pbs.host}", *(f"    {key} = {value}" for key, value in pbs.attributes.items()), ""])
    if verb == "unset":
        pbs.attributes.pop(rest.strip(), None)
    for key, sign, value in _PAIR.findall(rest) if verb == "set" else ():
        text = _changed(pbs.attributes.get(key, ""), sign, value.strip('"'))
        pbs.attributes[key] = text.capitalize() if text in ("true", "false") else text
        if not text:
            del pbs.attributes[key]
        # Setting it starts a cycle, also if it was set before.
        pbs.cluster.cycle_is_due = pbs.cluster.cycle_is_due or (key, text.lower()) == ("scheduling", "true")
    if "managers" in rest:
        named = pbs.attributes.get("managers", "").split(",")
        pbs.managers = frozenset({"root", *(each.partition("@")[0] for each in named if each)})
    return ""


def _changed(before: str, sign: str, value: str) -> str:
    """Return an attribute's new value: of lists, those with and without commas, one may be added or taken away."""
    kept = [part for part in before.split(",") if part and part != value]
    match sign:
        case "+=":
            return ",".join([*kept, value])
        case "-=":
            return ",".join(kept)
    return value


def _node(pbs: Pbs, verb: str, name: str, rest: str) -> str:
    node = pbs.cluster.nodes.get(name)
    if node is None:
        raise PbsError(UNKNOWN_NODE, "Unknown node")
    if verb == "unset":
        for key in (part.strip() for part in rest.split(",")):
            _write(pbs, name, key, "=", "")
        return ""
    pairs = _PAIR.findall(rest)
    # All of one order, or nothing of it.
    for key, _, _ in pairs:
        if key.startswith("resources_available.") and key.partition(".")[2] not in pbs.resources:
            raise PbsError(NO_ATTRIBUTE, "Unknown resource")
    for key, sign, value in pairs:
        _write(pbs, name, key, sign, value.strip('"'))
    return ""


def _write(pbs: Pbs, name: str, key: str, sign: str, value: str) -> None:
    node = pbs.cluster.nodes[name]
    if key == "comment":
        node.note = value
    elif key == f"resources_available.{NODE_RESOURCE}":
        node.mark = value
    elif key == "state":
        wanted = set(value.split(",")) & STATES
        if sign == "=":
            # What the server has noticed itself is written over, too: a node that is down is down no more.
            node.shown_up = not node.alive
        node.shut = {"=": wanted, "+=": node.shut | wanted, "-=": node.shut - wanted}[sign]


def _made(table: dict[str, str], verb: str, title: str, name: str, rest: str) -> str:
    match verb:
        case "create":
            table[name] = rest
        case "import":
            table[name] = Path(rest.split()[-1]).read_text()
        case "delete":
            table.pop(name, None)
        case "list" | "print":
            return "".join(
                f"{title} {each}\n    {'enabled = true' if title == 'Hook' else made}\n\n"
                for each, made in table.items()
            )
    return ""
