"""The commands: what each does with the server, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plugin.pbs.openpbs_server import BEGIN_RESOURCE, PRIORITY_RESOURCE
from plugin.scheduler.job import JobState
from sim_backend.pbs_standin.answer import (
    BAD_STATE,
    NO_ATTRIBUTE,
    REFUSED,
    UNKNOWN_JOB,
    UNKNOWN_NODE,
    Answer,
    Refused,
    all_of,
    version_of,
)
from sim_backend.pbs_standin.hooks import check_change, check_submission
from sim_backend.pbs_standin.letters import letter_of
from sim_backend.pbs_standin.openpbs_json import answer_json, pbsnodes_json, qstat_json
from sim_backend.pbs_standin.openpbs_text import qstat_text
from sim_backend.pbs_standin.pbs import OPENPBS, TORQUE, Pbs
from sim_backend.pbs_standin.power_told import power_told
from sim_backend.pbs_standin.qmgr import qmgr
from sim_backend.pbs_standin.submission import Options, date_time_s, options_of, submitted
from sim_backend.pbs_standin.text import jobs_text, queues_text, server_text
from sim_backend.pbs_standin.torque_xml import pbsnodes_xml, qstat_xml
from sim_backend.scheduler.sim_job import SimJob

READ_ONLY = frozenset({PRIORITY_RESOURCE, BEGIN_RESOURCE})
HISTORY = "job_history_enable"
SELECTED = {TORQUE: frozenset("CEHQRTW"), OPENPBS: frozenset("BEFHMQRSTUWX")}
"""The states that qselect takes: that of Torque does not take S, though its server has suspended jobs."""
NO_HISTORY = "qstat: PBS is not configured to maintain job history \n"


@dataclass(frozen=True)
class Call:
    """One call of a program by a user; `text` is its standard input."""

    program: str
    words: tuple[str, ...]
    user: str
    text: str
    now_s: float


def answer(pbs: Pbs, call: Call) -> Answer:
    """Return what the program answers."""
    pbs.step(call.now_s)
    try:
        return PROGRAMS[call.program](pbs, call)
    except Refused as problem:
        return Answer(err=f"{call.program}: {problem}\n", code=problem.code)


def _qstat(pbs: Pbs, call: Call) -> Answer:
    if "--version" in call.words:
        return version_of(pbs.kind)
    told = options_of(call.words, flags="xtfBQan1")
    if "B" in told.values or "Q" in told.values:
        return Answer((server_text if "B" in told.values else queues_text)(pbs, call.now_s))
    jobs = _chosen(pbs, told.rest) if told.rest else list(pbs.cluster.jobs.values())
    jobs = [job for job in jobs if pbs.shows(job, call.user)]
    if pbs.kind == TORQUE:
        return Answer(qstat_xml(pbs, jobs, call.now_s) if "x" in told.values else jobs_text(pbs, jobs, call.now_s))
    complaint = ""
    if "x" not in told.values:
        jobs = [job for job in jobs if job.state is not JobState.ENDED]
    elif pbs.attributes.get(HISTORY) != "True":
        # A server shows no job at all then, not even those that wait, and exits with 0.
        jobs, complaint = [], NO_HISTORY
    if told.values.get("F") == "json":
        # Of several jobs that are named a real server's qstat prints the first only.
        jobs = jobs if len(told.rest) < 2 else jobs[:1]
        return Answer(qstat_json(pbs, jobs, call.now_s), complaint)
    if complaint:
        return Answer(err=complaint)
    return Answer((qstat_text if "f" in told.values else jobs_text)(pbs, jobs, call.now_s))


def _qselect(pbs: Pbs, call: Call) -> Answer:
    told = options_of(call.words, flags="TJxH")
    wanted = told.values.get("s", "")
    without, letters = wanted.startswith(".ne."), wanted.removeprefix(".ne.").removeprefix(".eq.")
    if not letters or set(letters) - SELECTED[pbs.kind] or ("T" in told.values and pbs.kind == TORQUE):
        return Answer(err="qselect: illegal -s value\nusage: qselect [-a [op]date_time] ...\n", code=2)
    jobs = [job for job in pbs.cluster.jobs.values() if pbs.shows(job, call.user)]
    if pbs.kind == OPENPBS:
        jobs = [job for job in jobs if job.state is not JobState.ENDED]
        # Without -T an array stands for its subjobs, and with it the server ignores the operator for them.
        jobs = [job for job in jobs if job.index is None or "T" in told.values]
    found = [job for job in jobs if (letter_of(pbs, job, call.now_s) in letters) is not without]
    return Answer("".join(f"{pbs.job_id(job)}\n" for job in found).encode())


def _chosen(pbs: Pbs, names: Sequence[str]) -> list[SimJob]:
    return [job for name in names for job in _named(pbs, name)]


def _named(pbs: Pbs, name: str) -> list[SimJob]:
    jobs = pbs.named(name)
    if not jobs:
        word = "Unknown Job Id Error" if pbs.kind == TORQUE else "Unknown Job Id"
        raise Refused(UNKNOWN_JOB, f"{word} {name}")
    return jobs


def _qsub(pbs: Pbs, call: Call) -> Answer:
    check_submission(pbs, options_of(call.words).variables, call.user)
    jobs = submitted(pbs, call.words, call.text, call.user, call.now_s)
    pbs.step(call.now_s)
    number = f"{jobs[0].number}[].{pbs.host}" if jobs[0].index is not None else pbs.job_id(jobs[0])
    return Answer(f"{number}\n".encode())


def _of_each(pbs: Pbs, call: Call, told: Options, change: Callable[[SimJob, Options], None]) -> Answer:
    """Change each of the jobs that are named, one after the other; what fails of one does not keep the others."""
    refused = []
    for name in told.rest:
        try:
            for job in _named(pbs, name):
                _check(pbs, job, call, name)
                change(job, told)
        except Refused as problem:
            refused.append(problem)
    return all_of(call.program, refused)


def _check(pbs: Pbs, job: SimJob, call: Call, name: str) -> None:
    if call.user not in pbs.managers and call.user != job.user:
        raise Refused(REFUSED, f"Unauthorized Request  {name}")
    if job.state is JobState.ENDED:
        raise (
            Refused(15139, f"Job has finished {name}")
            if pbs.kind == OPENPBS
            else Refused(BAD_STATE, f"Request invalid for state of job {name}")
        )


def _qalter(pbs: Pbs, call: Call) -> Answer:
    told = options_of(call.words)

    def change(job: SimJob, told: Options) -> None:
        if job.state is not JobState.PENDING:
            raise Refused(15015, f"Cannot modify attribute while job running {pbs.job_id(job)}")
        for name in told.wants:
            _check_resource(pbs, name, call.user)
        check_change(pbs, job, call.user, told.values)
        job.wants |= told.wants
        job.priority = int(told.values.get("p", job.priority))
        if "a" in told.values:
            job.begin_s = date_time_s(told.values["a"])
        job.comment = told.extra.get("comment", job.comment)

    return _of_each(pbs, call, told, change)


def _check_resource(pbs: Pbs, name: str, user: str) -> None:
    if name in READ_ONLY and name not in pbs.resources:
        raise Refused(NO_ATTRIBUTE, f"Unknown resource Resource_List.{name}")
    if name in READ_ONLY and user not in pbs.managers:
        raise Refused(15003, f"Cannot set attribute, read only or insufficient permission  Resource_List.{name}")


def _hold(pbs: Pbs, call: Call) -> Answer:
    # Here -h has a value.
    told = options_of(call.words, flags="")
    letters = set(told.values.get("h", "u"))

    def change(job: SimJob, _told: Options) -> None:
        if call.user not in pbs.managers and letters != {"u"}:
            raise Refused(REFUSED, f"Unauthorized Request  {pbs.job_id(job)}")
        job.holds = job.holds | letters if call.program == "qhold" else job.holds - letters

    return _of_each(pbs, call, told, change)


def _qdel(pbs: Pbs, call: Call) -> Answer:
    return _of_each(pbs, call, options_of(call.words), lambda job, _: pbs.cluster.end(job, call.now_s))


def _qorder(pbs: Pbs, call: Call) -> Answer:
    (one,), (other,) = (_named(pbs, name) for name in call.words)
    if one is other:
        raise Refused(BAD_STATE, "a server of Torque 4.2 would hang now, for ever")
    if call.user not in pbs.managers and {one.user, other.user} != {call.user}:
        raise Refused(REFUSED, f"Unauthorized Request  {call.words[0]}")
    one.rank, other.rank = other.rank, one.rank
    return Answer()


def _pbsnodes(pbs: Pbs, call: Call) -> Answer:
    if "--version" in call.words:
        return version_of(pbs.kind)
    if pbs.kind == OPENPBS and "-x" in call.words:
        return Answer(err="pbsnodes: invalid option -- 'x'\nusage:\tpbsnodes [-{o|r}][-C comment] ...\n", code=1)
    if pbs.kind == TORQUE and "-F" in call.words:
        return Answer(err="pbsnodes: invalid option -- 'F'\n", code=1)
    told = options_of(call.words, flags="axcorldv")
    names = told.rest or list(pbs.cluster.nodes)
    if pbs.kind == OPENPBS and told.values.get("F") == "json" and set(names) - pbs.cluster.nodes.keys():
        # No error: a record that says so, and exit code 0.
        unknown_nodes = {name: {name: "Unknown node "} for name in names if name not in pbs.cluster.nodes}
        return Answer(answer_json(pbs, call.now_s, "nodes", unknown_nodes))
    if unknown := [name for name in names if name not in pbs.cluster.nodes]:
        raise Refused(UNKNOWN_NODE, f"Unknown node  MSG=cannot locate specified node {unknown[0]}")
    nodes = [pbs.cluster.nodes[name] for name in names]
    if "m" in told.values:
        return power_told(pbs, nodes, told.values["m"], manager=call.user in pbs.managers)
    if {"o", "c", "r", "N"} & told.values.keys():
        if call.user not in pbs.managers:
            raise Refused(REFUSED, f"Unauthorized Request  {names[0]}")
        for node in nodes:
            node.shut = node.shut | {"offline"} if "o" in told.values else node.shut - {"offline"}
            node.note = told.values.get("N", node.note)
        return Answer()
    if pbs.kind == OPENPBS:
        return Answer(pbsnodes_json(pbs, nodes, call.now_s))
    return Answer(pbsnodes_xml(pbs, nodes, call.now_s))


def _qmgr(pbs: Pbs, call: Call) -> Answer:
    orders = [call.words[1]] if call.words[:1] == ("-c",) else call.text.splitlines()
    answers = [qmgr(pbs, order, call.user) for order in orders if order.strip()]
    return Answer(b"".join(each.out for each in answers), "".join(each.err for each in answers), answers[-1].code)


PROGRAMS: Mapping[str, Callable[[Pbs, Call], Answer]] = {
    "qstat": _qstat,
    "qselect": _qselect,
    "qsub": _qsub,
    "qalter": _qalter,
    "qhold": _hold,
    "qrls": _hold,
    "qdel": _qdel,
    "qorder": _qorder,
    "pbsnodes": _pbsnodes,
    "qmgr": _qmgr,
}
