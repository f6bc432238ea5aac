"""User hints in a job's comment: `offpeak:delay=12h`, `offpeak:deadline=...`, `offpeak:now`.

deploy/slurm/job_submit.lua parses the same hints at submission.
"""

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache

from offpeak.errors import BadInput
from offpeak.model.units import parse_duration_s

HINT_PREFIX = "offpeak:"
BROKER_KEY = "key"
"""The hint by which a broker finds its job again; it allows no delay."""
EXAMPLES = "delay=12h, deadline=2026-11-22T08:00 or now"
_HINT = re.compile(r"(?:delay|deadline)=.*|now")
_DEADLINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")


@dataclass(frozen=True)
class UserHints:
    """The delay from the submission on, the latest end, `now`: never delay the job. `errors`: unreadable hints."""

    delay_s: int | None = None
    deadline_s: int | None = None
    now: bool = False
    errors: tuple[str, ...] = ()

    @property
    def allows_delay(self) -> bool:
        """Whether the job may wait. With an unreadable hint it may not."""
        return not self.now and not self.errors and (self.delay_s is not None or self.deadline_s is not None)


NO_HINTS = UserHints()


def parse_user_hints(comment: str, zone: tzinfo) -> UserHints:
    """Return the hints of the comment, the strictest of several delays or deadlines. Never raises."""
    return _parse_comment(comment, zone) if HINT_PREFIX in comment else NO_HINTS


@lru_cache(maxsize=4096)
def _parse_comment(comment: str, zone: tzinfo) -> UserHints:
    delays_s, deadlines_s, errors, now = [], [], [], False
    for hint in _hint_texts(comment):
        name, _, value = hint.partition("=")
        try:
            if hint == "now":
                now = True
            elif name == BROKER_KEY:
                continue
            elif name == "delay":
                delays_s.append(parse_duration_s(value))
            elif name == "deadline":
                deadlines_s.append(_deadline_s(value, zone))
            else:
                raise BadInput("unknown hint", hint=EXAMPLES)
        except BadInput as problem:
            errors.append(f"offpeak:{hint}: {problem}; {problem.hint}")
    return UserHints(min(delays_s, default=None), min(deadlines_s, default=None), now, tuple(errors))


def _hint_texts(comment: str) -> list[str]:
    """Return the words after each `offpeak:`, and after its commas those that can only be hints."""
    hints = []
    for chunk in comment.split():
        begun = False
        for piece in re.split("[,;]", chunk):
            begun = begun or piece.startswith(HINT_PREFIX)
            if piece.startswith(HINT_PREFIX) or (begun and _HINT.fullmatch(piece)):
                hints.append(piece.removeprefix(HINT_PREFIX))
    return [hint for hint in hints if hint]


def _deadline_s(text: str, zone: tzinfo) -> int:
    problem = BadInput(f"{text!r} is no time", hint="write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00")
    if not _DEADLINE.fullmatch(text):
        raise problem
    try:
        written = datetime.fromisoformat(text)
        return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())
    except (ValueError, OverflowError):
        raise problem from None
