"""The findings of the self-test, and equal findings of many nodes as one group."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from offpeak.errors import OffpeakError


class CheckVerdict(StrEnum):
    """Whether something works; DOUBTFUL works, but an admin should know."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "failed"


@dataclass(frozen=True)
class Finding:
    """What was found of one thing: `part` is what kind of thing it is ("bmc", "pdu"), `subject` its name."""

    part: str
    subject: str
    verdict: CheckVerdict
    said: str
    hint: str = ""


@dataclass(frozen=True)
class FindingGroup:
    """Findings that say the same of several subjects; `hint` is the first one's, which may name its address."""

    part: str
    subjects: tuple[str, ...]
    verdict: CheckVerdict
    said: str
    hint: str


def group_findings(findings: Iterable[Finding]) -> tuple[FindingGroup, ...]:
    """Return the findings with like ones put together, each where its first one stood."""
    groups = defaultdict[tuple[str, CheckVerdict, str], list[Finding]](list)
    for each in findings:
        groups[each.part, each.verdict, each.said].append(each)
    return tuple(
        FindingGroup(part, tuple(each.subject for each in group), verdict, said, group[0].hint)
        for (part, verdict, said), group in groups.items()
    )


def failed_finding(part: str, subject: str, problem: OffpeakError) -> Finding:
    """Return the finding that a problem is, without the name and address with which its message begins."""
    name = rf"(?:{re.escape(subject)}|\d+\.\d+\.\d+\.\d+(?::\d+)?)(?: \(BMC [^)]*\))?: (?:BMC \S+: )?"
    return Finding(part, subject, CheckVerdict.BAD, re.sub(f"^{name}", "", str(problem)), problem.hint)
