"""What an agent says to one OID: a number, a text, or why there is none."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Nothing:
    """No value at an OID; `gone` where the agent has no such object at all."""

    why: str
    gone: bool = False


NO_SUCH = Nothing("the PDU has no such OID", gone=True)

Answer = int | str | Nothing
"""Integers, counters, gauges and ticks are numbers; strings are texts, OIDs are texts of digits and dots."""

Answers = dict[str, Answer]
"""By OID, without a dot before it."""


def number_of(answer: Answer) -> float | None:
    """Return a number, also one that is written as text ("12.5"), None for everything else."""
    if isinstance(answer, int):
        return float(answer)
    if isinstance(answer, str):
        try:
            number = float(answer)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


def below(answers: Answers, column: str) -> Answers:
    """Return the answers of a column by what follows it: the rows."""
    start = f"{column}."
    return {oid.removeprefix(start): answer for oid, answer in answers.items() if oid.startswith(start)}
