"""What the self-test found, and the same of many nodes in one line."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from offpeak.errors import OffpeakError


class Verdict(StrEnum):
    """Whether something works; DOUBTFUL works, but an admin should know."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "failed"


@dataclass(frozen=True)
class Finding:
    """What was found of one thing: `part` is what kind of thing it is ("bmc", "pdu"), `subject` its name."""

    part: str
    subject: str
    verdict: Verdict
    said: str
    hint: str = ""


@dataclass(frozen=True)
class Alike:
    """Findings that say the same of several subjects; `hint` is the first one's, which may name its address."""

    part: str
    subjects: tuple[str, ...]
    verdict: Verdict
    said: str
    hint: str


def alike(findings: Iterable[Finding]) -> tuple[Alike, ...]:
    """Return the findings with like ones put together, each where its first one stood."""
    groups = defaultdict[tuple[str, Verdict, str], list[Finding]](list)
    for each in findings:
        groups[each.part, each.verdict, each.said].append(each)
    return tuple(
        Alike(part, tuple(each.subject for each in group), verdict, said, group[0].hint)
        for (part, verdict, said), group in groups.items()
    )


def failed(part: str, subject: str, problem: OffpeakError) -> Finding:
    """Return the finding that a problem is, without the name and address with which its message begins."""
    name = rf"(?:{re.escape(subject)}|\d+\.\d+\.\d+\.\d+(?::\d+)?)(?: \(BMC [^)]*\))?: (?:BMC \S+: )?"
    return Finding(part, subject, Verdict.BAD, re.sub(f"^{name}", "", str(problem)), problem.hint)
