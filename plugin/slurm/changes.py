"""Changes jobs and nodes by scontrol: the rank, begin time and comment of a job, the state of a node.

A notice for a job's owner is one bracketed part of its AdminComment; the rest of that comment stays. Each node is read
directly before its change: a node that an admin has closed or taken down stays as it is.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from offpeak.errors import ListRefused
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking, RequeuePermit, is_change_done
from offpeak.plugin.slurm.commands import (
    CannotAskSlurm,
    SlurmIsSilent,
    ask,
    complaint_of_one,
    complaints_by_job,
    rows_of_squeue,
    run_scontrol,
)
from offpeak.plugin.slurm.jobs import HELD_REASONS
from offpeak.plugin.slurm.nodes import NODES_ARGUMENTS, ClosedReasons, nodes_of_text

# Larger values mean "none" in Slurm.
HIGHEST_PRIORITY = 4_294_967_293
LOWEST_NICE, HIGHEST_NICE = -2_147_483_645, 2_147_483_645
FIRST_S = 1_000_000
HELD_COMPLAINT = "Job is in held state, pending scheduler release"

# Slurm's messages for jobs that have ended meanwhile: nothing is left to change.
GONE = frozenset({"Invalid job id specified", "Job has already finished"})

_JOB_NUMBER = re.compile(r"[0-9]+")

# The fields before JobName, which a user writes; the tasks of an array are A_T, because A names the whole array.
_RUNNING_JOB = re.compile(rb"^JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\d+))? JobName=", re.MULTILINE)
_PERMIT = re.compile(rb" Requeue=([01]) Restarts=(\d+) BatchFlag=1 ")

UNCLEAR_COMMENT = "a line break in its name or comments hides which AdminComment is its own"

_OUR_PART = re.compile(r"\s*\[offpeak: [^\]]*\]")
_RECORD = re.compile(r"^JobId=(\d+) ", re.MULTILINE)
_COMMENT = re.compile(r"^   AdminComment=(.*?)(?=\n   [A-Z]\w*[=/:]|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FOR_JOB = r" for job \S+$"

STATE_OF_CHANGE = {
    NodeChange.CLOSE: "drain",
    NodeChange.WITHDRAW: "drain",
    NodeChange.OPEN: "undrain",
    NodeChange.POWER_DOWN: "power_down",
    NodeChange.POWER_UP: "power_up",
    NodeChange.RESUME: "resume",
}
# These changes also replace a reason, or end a state, that an admin has set.
CHANGES_OF_REASON = (NodeChange.CLOSE, NodeChange.WITHDRAW, NodeChange.OPEN, NodeChange.RESUME)
# Slurm's own reasons for nodes that did not answer.
SILENT = "Not responding"
SLURM_REASONS = ("ResumeTimeout reached", SILENT, "Node unexpectedly rebooted")

_OF_NODES = "slurm_update error: "
DENIED = ("Invalid user id", "Access/permission denied")


class ScontrolOptions(NamedTuple):
    """How scontrol is run: the prefix `command`, its time-out, and how long slurmctld makes one order of many wait."""

    command: tuple[str, ...]
    timeout_s: float
    order_s: float = 0.0


def rank_jobs(values: Mapping[str, int], ranking: Ranking, scontrol: ScontrolOptions) -> dict[str, str]:
    """Set priorities, or offsets as nice values with the opposite sign; return why not, by job.

    Priority 0 would hold a job, and a nice value would release a held job in Slurm 22.05: neither is sent.
    """
    if ranking is Ranking.VALUE:
        refused = {
            job: f"priority {value} is none" for job, value in values.items() if not 0 < value <= HIGHEST_PRIORITY
        }
        return refused | _update_jobs({job: f"priority={value}" for job, value in values.items()}, refused, scontrol)
    nices = {job: -value for job, value in values.items()}
    refused = {job: f"nice {nice} is none" for job, nice in nices.items() if not LOWEST_NICE <= nice <= HIGHEST_NICE}
    refused |= dict.fromkeys(_held_jobs(scontrol.timeout_s) & values.keys(), HELD_COMPLAINT)
    return refused | _update_jobs({job: f"nice={nice}" for job, nice in nices.items()}, refused, scontrol)


def defer_jobs(begin_s: Mapping[str, int], scontrol: ScontrolOptions) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    # "uts" and Unix seconds depend on no time zone and no delay. Slurm takes no time of January 1970.
    times = {job: f"uts{at_s}" if at_s > FIRST_S else "now" for job, at_s in begin_s.items()}
    return _update_jobs({job: f"starttime={time}" for job, time in times.items()}, {}, scontrol)


def _update_jobs(changes: Mapping[str, str], refused: Mapping[str, str], scontrol: ScontrolOptions) -> dict[str, str]:
    invalid = {job: "is not a job number" for job in changes if not _JOB_NUMBER.fullmatch(job)}
    # An array's number changes all its tasks; split-off tasks have larger numbers, so their own change comes after it.
    jobs = sorted(changes.keys() - refused.keys() - invalid.keys(), key=int)
    orders = (f"update jobid={job} {changes[job]}" for job in jobs)
    complaints = complaints_by_job(
        orders, command=scontrol.command, timeout_s=scontrol.timeout_s, order_s=scontrol.order_s
    )
    return invalid | {job: why for job, why in complaints.items() if why not in GONE}


def _held_jobs(timeout_s: float) -> set[str]:
    arguments = ("--all", "--local", "--array", "--states=PENDING")
    rows = rows_of_squeue(ask("squeue", *arguments, "--Format=JobID:|,PriorityLong:|,Reason:", timeout_s=timeout_s))
    fields = (row.decode().split("|", 2) for row in rows)
    return {job for job, priority, reason in fields if priority == "0" or reason.strip() in HELD_REASONS}


def read_requeue_permits(jobs: Sequence[str], timeout_s: float) -> dict[str, RequeuePermit]:
    """Return what Slurm shows of each of these running batch jobs."""
    found = {}
    for job in jobs:
        try:
            shown = ask("scontrol", "--all", "--oneliner", "show", "job", job, timeout_s=timeout_s)
        except SlurmIsSilent:
            raise
        except CannotAskSlurm:
            continue
        for line in shown.splitlines():
            head, permit = _RUNNING_JOB.match(line), _PERMIT.search(line)
            if head and permit and head[1].decode() == job and b" JobState=RUNNING " in line:
                name = b"_".join(head.groups()[1:]) if head[2] else head[1]
                found[job] = RequeuePermit(permit[1] == b"1", name.decode(), int(permit[2]))
    return found


def signal_jobs(signals: Mapping[str, str], scontrol: ScontrolOptions) -> dict[str, str]:
    """Send the signal to the script of each job; return why not, by job."""
    return _run_each(
        {job: (f"--signal={signal}", "--batch", job) for job, signal in signals.items()}, scontrol, "scancel"
    )


def requeue_jobs(names: Sequence[str], scontrol: ScontrolOptions) -> dict[str, str]:
    """Requeue each job, which slurmctld refuses if the job does not permit it; return why not, by job."""
    return _run_each({job: ("requeue", job) for job in names}, scontrol)


def _run_each(by_job: Mapping[str, Sequence[str]], scontrol: ScontrolOptions, name: str = "scontrol") -> dict[str, str]:
    on_input = bool(scontrol.command) and name == "scontrol"
    run = partial(run_scontrol, command=scontrol.command, timeout_s=scontrol.timeout_s, name=name, on_input=on_input)
    complaints = {job: run(arguments) for job, arguments in by_job.items()}
    return {job: lines[-1] for job, lines in complaints.items() if lines}


def notify_owners(comments: Mapping[str, str], scontrol: ScontrolOptions) -> dict[str, str]:
    """Write each owner's notice, "" removes it; return why not, by job, without jobs that have ended."""
    present = admin_comments(ask("scontrol", "--all", "show", "jobs", timeout_s=scontrol.timeout_s))
    refusals = {
        job: _replace_comment(job, present[job], ours, scontrol) for job, ours in comments.items() if job in present
    }
    return {job: refusal for job, refusal in refusals.items() if refusal and refusal not in GONE}


def admin_comments(shown: bytes) -> dict[str, str]:
    """Return the AdminComment of each job that `scontrol show jobs` prints, UNCLEAR_COMMENT where it shows several."""
    pieces = _RECORD.split(shown.decode(errors="replace"))[1:]
    found: dict[str, str] = {}
    for job, record in zip(pieces[::2], pieces[1::2], strict=True):
        texts = [match[1].rstrip() for match in _COMMENT.finditer(record)]
        found[job] = UNCLEAR_COMMENT if len(texts) > 1 or job in found else "".join(texts)
    return found


def replace_our_part(text: str, ours: str) -> str:
    """Return the text with our part replaced; "" removes our part, a text without our part stays."""
    if not ours and not _OUR_PART.search(text):
        return text
    theirs = _OUR_PART.sub("", text).strip()
    # Our part must not contain its end mark or a line break.
    inside = " ".join(ours.replace("]", ")").split())
    return f"{theirs} [offpeak: {inside}]".strip() if inside else theirs


def _replace_comment(job: str, theirs: str, ours: str, scontrol: ScontrolOptions) -> str:
    if theirs == UNCLEAR_COMMENT:
        return UNCLEAR_COMMENT
    if (wanted := replace_our_part(theirs, ours)) == theirs:
        return ""
    # The text is an argument: on standard input scontrol would keep the quotes that a text with spaces needs.
    arguments = ("update", f"jobid={job}", f"admincomment={wanted}")
    complaint = complaint_of_one(arguments, _FOR_JOB, command=scontrol.command, timeout_s=scontrol.timeout_s)
    return re.sub(_FOR_JOB, "", complaint)


def change_nodes(
    nodes: Sequence[str], change: NodeChange, *, reason: str, scontrol: ScontrolOptions, reasons: ClosedReasons
) -> dict[str, str]:
    """Change nodes by one order; return why not. Raises ListRefused: Slurm does not say which node it refuses."""
    shown = nodes_of_text(ask("scontrol", *NODES_ARGUMENTS, timeout_s=scontrol.timeout_s))
    known = {node.name: node for node in reasons.restore(shown)}
    refusals = {node: _change_refusal(node, known, change) for node in nodes}
    due = [known[node] for node in nodes if not refusals[node] and not _is_change_done(known[node], change)]
    groups: dict[bool, list[str]] = defaultdict(list)
    for node in due:
        groups[change is NodeChange.POWER_DOWN and _must_go_down_first(node)].append(node.name)
    for first, names in groups.items():
        states = (*(("down",) if first else ()), STATE_OF_CHANGE[change])
        complaint = _change_group(",".join(names), states, reason, scontrol)
        if complaint and (len(names) == 1 or complaint in DENIED):
            refusals |= dict.fromkeys(names, complaint)
        elif complaint:
            raise ListRefused(f"scontrol: {complaint}")
    return {node: refusal for node, refusal in refusals.items() if refusal}


def _change_refusal(name: str, known: Mapping[str, Node], change: NodeChange) -> str:
    node = known.get(name)
    if node is None:
        return "Slurm has no such node"
    by = f"{node.reason_by or 'another user'}: {node.reason}"
    if node.closed and not node.closed_by_us and change in CHANGES_OF_REASON:
        return f"was closed by {by}"
    if (
        node.failed
        and node.reason
        and not node.reason.startswith((OFFPEAK, *SLURM_REASONS))
        and change in CHANGES_OF_REASON
    ):
        return f"was taken down by {by}"
    if node.is_awaited and change in (NodeChange.CLOSE, NodeChange.WITHDRAW):
        # slurmctld requeues the jobs of an allocated node that is drained before it is up.
        return f"is {node.native_state}: Slurm waits for it"
    if change is NodeChange.POWER_DOWN and node.use is NodeUse.UNKNOWN and not _is_forgotten(node):
        return f"is {node.native_state}: offpeak does not know what that means"
    if change is NodeChange.POWER_UP and node.power is PowerState.POWERING_OFF:
        return "still powers down, and Slurm would forget the order"
    return ""


def _is_forgotten(node: Node) -> bool:
    """Whether slurmctld has begun anew, and the node, which we may have closed, has no job and has not registered.

    A job that had ended before slurmctld was killed may complete there for ever.
    """
    flags = set(node.native_state.split("+"))
    begins = {"UNKNOWN"} if "UNKNOWN" in flags else {"IDLE", "COMPLETING", "NOT_RESPONDING"}
    expected = {*begins, "NOT_RESPONDING", *(("DRAIN",) if node.closed_by_us else ())}
    return begins <= flags <= expected and not node.cpus_used


def _must_go_down_first(node: Node) -> bool:
    # A forgotten node would be about to power down for ever, and resume is refused. One that slurmctld has taken down
    # since keeps slurmctld's reason, by which it would count as one that did not come up.
    return _is_forgotten(node) or (node.failed and node.reason.startswith(SILENT))


def _is_change_done(node: Node, change: NodeChange) -> bool:
    if change is NodeChange.POWER_DOWN:
        # A second order would power the node down again, possibly after it has been woken.
        return node.power in (PowerState.OFF_REQUESTED, PowerState.POWERING_OFF, PowerState.OFF)
    return is_change_done(node, change)


def _change_group(names: str, states: Sequence[str], reason: str, scontrol: ScontrolOptions) -> str:
    complaint = ""
    # scontrol takes the quotes around a reason off, as an argument and on its standard input.
    text = " ".join(reason.replace('"', "'").split())
    for state in states:
        arguments = ["update", f"nodename={names}", f"state={state}"]
        if state in ("down", "drain"):
            arguments.append(f'reason="{text}"')
        complaint = complaint or complaint_of_one(
            arguments,
            _OF_NODES,
            command=scontrol.command,
            timeout_s=scontrol.timeout_s,
            on_input=bool(scontrol.command),
        )
    return complaint.rpartition(_OF_NODES)[2]
