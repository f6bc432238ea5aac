"""What a job's owner allows, as written in the comment: `offpeak:delay=12h`, `offpeak:deadline=...`, `offpeak:now`.

deploy/slurm/job_submit.lua reads the same words at submission.
"""

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache

from offpeak.errors import BadInput
from offpeak.model.units import parse_duration_s

MARK = "offpeak:"
KEY = "key"
"""By which a broker finds a job again: it allows nothing."""
EXAMPLES = "delay=12h, deadline=2026-11-22T08:00 or now"
_OF_OURS = re.compile(r"(?:delay|deadline)=.*|now")
_DEADLINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")


@dataclass(frozen=True)
class Consent:
    """A delay from the submission on, an end at the latest, or `now`: leave it alone. `troubles` could not be read."""

    delay_s: int | None = None
    deadline_s: int | None = None
    now: bool = False
    troubles: tuple[str, ...] = ()

    @property
    def allows_delay(self) -> bool:
        """Whether the job may wait; where anything could not be read it may not."""
        return not self.now and not self.troubles and (self.delay_s is not None or self.deadline_s is not None)


NONE = Consent()


def consent_of(comment: str, zone: tzinfo) -> Consent:
    """Return what the comment allows; of several delays or deadlines the strictest. Never raises."""
    return _read(comment, zone) if MARK in comment else NONE


@lru_cache(maxsize=4096)
def _read(comment: str, zone: tzinfo) -> Consent:
    delays_s, deadlines_s, troubles, now = [], [], [], False
    for word in _words(comment):
        name, _, value = word.partition("=")
        try:
            if word == "now":
                now = True
            elif name == KEY:
                continue
            elif name == "delay":
                delays_s.append(parse_duration_s(value))
            elif name == "deadline":
                deadlines_s.append(_deadline_s(value, zone))
            else:
                raise BadInput("not a word of offpeak", hint=EXAMPLES)
        except BadInput as problem:
            troubles.append(f"offpeak:{word}: {problem}; {problem.hint}")
    return Consent(min(delays_s, default=None), min(deadlines_s, default=None), now, tuple(troubles))


def _words(comment: str) -> list[str]:
    """Return the words behind each `offpeak:`, and behind its commas those that can only be ours."""
    words = []
    for chunk in comment.split():
        begun = False
        for piece in re.split("[,;]", chunk):
            begun = begun or piece.startswith(MARK)
            if piece.startswith(MARK) or (begun and _OF_OURS.fullmatch(piece)):
                words.append(piece.removeprefix(MARK))
    return [word for word in words if word]


def _deadline_s(text: str, zone: tzinfo) -> int:
    problem = BadInput(f"{text!r} is no time", hint="write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00")
    if not _DEADLINE.fullmatch(text):
        raise problem
    try:
        written = datetime.fromisoformat(text)
        return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())
    except (ValueError, OverflowError):
        raise problem from None
