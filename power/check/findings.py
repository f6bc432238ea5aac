"""The findings of the self-test, groups of equal findings on many nodes, and the checks of what this user may read.

These are the files of the logins, the scheduler and the feeds. Torque and OpenPBS must be configured so that offpeak
can reorder and defer jobs and close nodes.
"""

import os
import pwd
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError, SchedulerError
from offpeak.machines.credentials import Credential, read_secret
from offpeak.model.constants import HOUR_S
from offpeak.text import counted
from plugin.pbs.openpbs import OpenPbsScheduler
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import Scheduler
from plugin.slurm.commands import CannotAskSlurm, ask, parse_config
from plugin.slurm.configuration import AdminLevel, SlurmRights, find_rate_problems, read_rights
from predictors.feeds.feed import Feed
from predictors.feeds.port import KnownSeries, Window

SLURM_TIMEOUT_S = 10.0
SCHEDULER_PART, SLURM, QOS_PART = "scheduler", "Slurm", "qos"
SHOWN_NODES = 5
BOOK_SLEEPING_HINT = (
    "qmgr -c 'set pbshook PBS_power enabled = True', or keep enough nodes awake: keep_hot below [capacity], "
    "min_on below [agent]"
)


class CheckVerdict(StrEnum):
    """Whether something works; DOUBTFUL works, but needs an admin's attention."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "failed"


@dataclass(frozen=True)
class Finding:
    """The result of one check: `part` is the kind of the subject ("bmc", "pdu"), `subject` its name."""

    part: str
    subject: str
    verdict: CheckVerdict
    message: str
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the finding as `offpeak check --json` prints it."""
        return {
            "part": self.part,
            "subject": self.subject,
            "verdict": str(self.verdict),
            "said": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True)
class FindingGroup:
    """Findings with the same message on several subjects; `hint` is that of the first one."""

    part: str
    subjects: tuple[str, ...]
    verdict: CheckVerdict
    message: str
    hint: str


def group_findings(findings: Iterable[Finding]) -> tuple[FindingGroup, ...]:
    """Group findings with the same message, in the order of their first ones."""
    groups = defaultdict[tuple[str, CheckVerdict, str], list[Finding]](list)
    for finding in findings:
        groups[finding.part, finding.verdict, finding.message].append(finding)
    return tuple(
        FindingGroup(part, tuple(finding.subject for finding in group), verdict, message, group[0].hint)
        for (part, verdict, message), group in groups.items()
    )


def failed_finding(part: str, subject: str, problem: OffpeakError) -> Finding:
    """Return the finding for a problem, without the name and address at the start of its message."""
    name = rf"(?:{re.escape(subject)}|\d+\.\d+\.\d+\.\d+(?::\d+)?)(?: \(BMC [^)]*\))?: (?:BMC \S+: )?"
    return Finding(part, subject, CheckVerdict.BAD, re.sub(f"^{name}", "", str(problem)), problem.hint)


def check_credentials(credentials: Iterable[Credential]) -> Iterator[Finding]:
    """Yield a finding for every login: whether this user, and no other, can read its files."""
    for credential in credentials:
        try:
            files = _read_secrets(credential)
        except BadInput as problem:
            yield failed_finding("login", credential.name, problem)
        else:
            yield Finding("login", credential.name, CheckVerdict.GOOD, f"{files} readable by this user only")


def _read_secrets(credential: Credential) -> str:
    files = [file for file in (credential.password_file, credential.privacy_file, credential.key_file) if file]
    for file in files:
        read_secret(file)
    if credential.known_hosts and not credential.known_hosts.is_file():
        hint = f"ssh-keyscan -f NODES > {credential.known_hosts}, and compare the keys with those on the nodes"
        raise BadInput(f"{credential.known_hosts}: no such file", hint=hint)
    return "its file is" if len(files) == 1 else f"its {len(files)} files are"


def check_scheduler() -> Finding:
    """Check that Slurm answers, shows this user all jobs, and lets it drain nodes and set priorities."""
    try:
        ask("scontrol", "ping", timeout_s=SLURM_TIMEOUT_S)
        rights = read_rights(timeout_s=SLURM_TIMEOUT_S)
        config = parse_config(ask("scontrol", "show", "config", timeout_s=SLURM_TIMEOUT_S))
    except CannotAskSlurm as problem:
        return _no_slurm_finding(problem)
    found = check_rights(rights)
    if found.verdict is CheckVerdict.GOOD and (limits := find_rate_problems(config)):
        ((message, hint),) = limits
        return Finding(SCHEDULER_PART, SLURM, CheckVerdict.DOUBTFUL, f"{found.message}; {message}", hint)
    return found


def check_qos(names: Sequence[str]) -> Iterator[Finding]:
    """Yield for each QOS that declares hints whether Slurm has it, and what it pays for them."""
    if not names:
        return
    show = ("sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=Name,UsageFactor")
    try:
        lines = ask(*show, timeout_s=SLURM_TIMEOUT_S).decode(errors="replace").splitlines()
    except CannotAskSlurm as problem:
        yield from (failed_finding(QOS_PART, name, problem) for name in names)
        return
    factors = {name: float(factor or 1) for name, _, factor in (line.partition("|") for line in lines)}
    for name in names:
        if name not in factors:
            hint = f"sacctmgr add qos {name} set usagefactor=0.8; sacctmgr modify account NAME set qos+={name}"
            message = "Slurm has no such QOS, and no job its hints below [flexibility]"
            yield Finding(QOS_PART, name, CheckVerdict.BAD, message, hint)
        elif factors[name] < 1:
            message = f"UsageFactor {factors[name]:g}, also for jobs that never wait"
            hint = "credit_share below [flexibility] pays for what was moved"
            yield Finding(QOS_PART, name, CheckVerdict.DOUBTFUL, message, hint)
        else:
            yield Finding(QOS_PART, name, CheckVerdict.GOOD, f"UsageFactor {factors[name]:g}: no reward")


def check_rights(rights: SlurmRights) -> Finding:
    """Check a user's rights in Slurm: to see all jobs, to change jobs, to change nodes."""
    level = f"{rights.user}'s AdminLevel is {rights.level}"
    if rights.problems:
        ((message, hint),) = rights.problems
        return Finding(SCHEDULER_PART, SLURM, CheckVerdict.BAD, f"{message}: nothing is switched off; {level}", hint)
    if rights.level is AdminLevel.ADMINISTRATOR:
        return Finding(SCHEDULER_PART, SLURM, CheckVerdict.GOOD, f"answers; {rights.user} may order nodes and jobs")
    may = "it may order jobs, not nodes" if rights.level is AdminLevel.OPERATOR else "it may order neither"
    return Finding(SCHEDULER_PART, SLURM, CheckVerdict.DOUBTFUL, f"answers; {level}: {may}", rights.hint)


def _no_slurm_finding(problem: OffpeakError) -> Finding:
    if any(Path(folder, "scontrol").exists() for folder in os.get_exec_path()):
        return failed_finding("scheduler", "Slurm", problem)
    hint = "offpeak never switches off nodes without a scheduler that reports which of them run no job"
    return Finding("scheduler", "Slurm", CheckVerdict.DOUBTFUL, "no scontrol on PATH", hint)


def check_pbs(scheduler: Scheduler) -> Finding:
    """Return the problems, or a good finding if the scheduler answers and tells the state of each node."""
    try:
        traits = scheduler.traits()
        problems = traits.problems or tuple(_unknown_nodes(scheduler.view().nodes))
    except SchedulerError as problem:
        return failed_finding(SCHEDULER_PART, "PBS", problem)
    name = f"{traits.name} {traits.version}"
    if problems:
        message = "; ".join(what for what, _ in problems)
        hints = "; ".join(dict.fromkeys(hint for _, hint in problems))
        return Finding(SCHEDULER_PART, name, CheckVerdict.DOUBTFUL, message, hints)
    me = pwd.getpwuid(os.geteuid()).pw_name
    return Finding(SCHEDULER_PART, name, CheckVerdict.GOOD, f"answers; orders by {traits.reorder_method}; {me} asks it")


def check_reservations(scheduler: OpenPbsScheduler) -> Iterator[Finding]:
    """Yield a finding if the server denies reservations that need sleeping nodes; none if it does not answer."""
    with suppress(SchedulerError):
        if not scheduler.books_sleeping_nodes():
            message = "pbs_rsub is denied where it needs nodes that sleep: the hook PBS_power is disabled"
            yield Finding(SCHEDULER_PART, "reservations", CheckVerdict.DOUBTFUL, message, BOOK_SLEEPING_HINT)


def _unknown_nodes(nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Yield what keeps nodes from being switched because their state is not understood, as message and hint."""
    if not nodes:
        yield "pbsnodes shows no nodes", "`pbsnodes -a` as the agent's user shows what it sees"
    states: dict[str, list[str]] = {}
    for node in nodes:
        if node.use is NodeUse.UNKNOWN:
            states.setdefault(node.native_state, []).append(node.name)
    for state, names in states.items():
        shown = ", ".join(names[:SHOWN_NODES]) + (", ..." if len(names) > SHOWN_NODES else "")
        yield (
            f"{counted(len(names), 'node')} in the state {state!r} ({shown}): never switched off",
            "name no such nodes below [agent]",
        )


def check_feeds(feeds: Iterable[tuple[str, Feed | None]], *, now_s: int) -> list[Finding]:
    """Return a finding for each configured feed, by name. The feeds store the answers in their caches."""
    window = Window(now_s - now_s % HOUR_S, now_s - now_s % HOUR_S + HOUR_S)
    return [_feed_finding(name, feed.known(window, now_s)) for name, feed in feeds if feed is not None]


def _feed_finding(name: str, known: KnownSeries) -> Finding:
    problems = "; ".join(map(str, known.problems))
    hint = known.problems[0].hint if known.problems else ""
    if known.series is None:
        return Finding("feed", name, CheckVerdict.BAD, problems or "knows nothing of this hour", hint)
    message = f"{known.source}: {known.basis}"
    if problems:
        return Finding("feed", name, CheckVerdict.DOUBTFUL, f"{message}; {problems}", hint)
    return Finding("feed", name, CheckVerdict.GOOD, message)
