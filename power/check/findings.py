"""The findings of the self-test, groups of equal findings on many nodes, and the checks of what this user may read.

These are the files of the logins, the scheduler and the feeds. The rules for the scheduler are those of the site's
contract, plugin/contract.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError, SchedulerError
from offpeak.machines.credentials import Credential, read_secret
from offpeak.model.constants import HOUR_S
from offpeak.plugin.contract.rules import ManagedSite, Severity, check_contract
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.plugin.slurm.commands import CannotAskSlurm, ask
from offpeak.predictors.feeds.feed import Feed
from offpeak.predictors.feeds.port import KnownSeries, Window
from offpeak.process import user_name

SLURM_TIMEOUT_S = 10.0
SCHEDULER_PART, SLURM, QOS_PART = "scheduler", "Slurm", "qos"


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


def check_scheduler(name: str, scheduler: Scheduler, managed: ManagedSite) -> list[Finding]:
    """Return what breaks the rules of the site's contract; if nothing does, that the scheduler answers.

    `managed` is what offpeak may switch, without the nodes that the scheduler shows.
    """
    try:
        traits = scheduler.traits()
    except SchedulerError as problem:
        return [_no_scheduler_finding(name, problem)]
    refused = []
    try:
        managed = replace(managed, nodes=scheduler.view().nodes)
    except SchedulerError as problem:
        # What hides nodes breaks a rule, too: that finding says more. Advice does not.
        refused = [failed_finding(SCHEDULER_PART, name, problem)]
    if not managed.nodes and not refused:
        hint = "`sinfo` or `pbsnodes -a` as the agent's user shows what it sees"
        refused = [Finding(SCHEDULER_PART, name, CheckVerdict.BAD, "it shows no nodes", hint)]
    broken = [
        Finding(
            SCHEDULER_PART,
            name,
            CheckVerdict.DOUBTFUL if finding.severity is Severity.ADVICE else CheckVerdict.BAD,
            finding.message,
            finding.hint,
        )
        for finding in check_contract(traits.contract, managed)
    ]
    by = f"; orders by {traits.reorder_method}" if traits.reorder_method else ""
    good = f"answers{by}; {user_name(os.geteuid())} may order nodes and jobs"
    if any(finding.verdict is CheckVerdict.BAD for finding in broken):
        return broken
    return [*(refused or [Finding(SCHEDULER_PART, name, CheckVerdict.GOOD, good)]), *broken]


def _no_scheduler_finding(name: str, problem: SchedulerError) -> Finding:
    program = "scontrol" if name == SLURM else "qstat"
    if any(Path(folder, program).exists() for folder in os.get_exec_path()):
        return failed_finding(SCHEDULER_PART, name, problem)
    hint = "offpeak never switches off nodes without a scheduler that reports which of them run no job"
    return Finding(SCHEDULER_PART, name, CheckVerdict.DOUBTFUL, f"no {program} on PATH", hint)


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
