"""What the self-test found, and the same of many nodes in one line."""

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
    """Findings that differ in their subjects only."""

    part: str
    subjects: tuple[str, ...]
    verdict: Verdict
    said: str
    hint: str


def alike(findings: Iterable[Finding]) -> tuple[Alike, ...]:
    """Return the findings with like ones put together, each where its first one stood."""
    subjects = defaultdict[tuple[str, Verdict, str, str], list[str]](list)
    for each in findings:
        subjects[each.part, each.verdict, each.said, each.hint].append(each.subject)
    return tuple(
        Alike(part, tuple(names), verdict, said, hint) for (part, verdict, said, hint), names in subjects.items()
    )


def failed(part: str, subject: str, problem: OffpeakError, *, addresses: Iterable[str] = ()) -> Finding:
    """Return the finding that a problem is. Its message begins with the device's address, which every one has alone."""
    said = str(problem)
    for address in (subject, *addresses):
        said = said.removeprefix(f"{address}: ")
    return Finding(part, subject, Verdict.BAD, said, problem.hint)
