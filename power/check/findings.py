"""The findings of the self-test, groups of equal findings on many nodes, and the checks of what this user may read.

These are the files of the logins, the scheduler and the feeds. Torque and OpenPBS must be configured so that offpeak
can reorder and defer jobs and close nodes.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from offpeak.errors import OffpeakError


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
