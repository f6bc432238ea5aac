"""The flexibility of a job: the tier that its owner declares by hints in its comment, or its site by QOS or partition.

`offpeak:delay=12h`, `offpeak:deadline=2026-11-22T08:00`, `offpeak:checkpoint=10min`, `offpeak:cap`, `offpeak:now`.
deploy/slurm/job_submit.lua and deploy/openpbs/offpeak_queuejob.py parse the same hints at submission.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S
from offpeak.model.units import parse_duration_s
from offpeak.text import printable

HINT_PREFIX = "offpeak:"
BROKER_KEY = "key"
"""The hint by which a broker finds its job again; it allows no delay."""
EXAMPLES = "delay=12h, deadline=2026-11-22T08:00, checkpoint=10min, cap or now"
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP")
"""The signals that may ask a job for its checkpoint; the first one is the usual one."""
_HINT = re.compile(r"(?:delay|deadline|checkpoint)=.*|now|cap")
FIRST_YEAR, LAST_YEAR = 1970, 2999
"""A deadline of another year is a mistake, and the sums with it have no date."""
_DEADLINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")


class Tier(IntEnum):
    """What a job allows, each beside what the lower ones may allow.

    T0: nothing. T1: to wait hours. T2: to wait a day or longer. T3: to be checkpointed and requeued. T4: a power cap.
    """

    T0 = 0
    T1 = 1
    T2 = 2
    T3 = 3
    T4 = 4


class Checkpoint(NamedTuple):
    """The signal that asks a job for its checkpoint, such as USR1, and the longest time until that is written."""

    signal: str
    within_s: int


@dataclass(frozen=True)
class Flexibility:
    """The delay from the submission on, the latest end, the checkpoint, whether the power may be capped.

    `now`: never delay, requeue or cap the job. `errors` are unreadable hints: with one the job allows nothing.
    """

    delay_s: int | None = None
    deadline_s: int | None = None
    checkpoint: Checkpoint | None = None
    cap: bool = False
    now: bool = False
    errors: tuple[str, ...] = ()

    @property
    def is_rigid(self) -> bool:
        """Whether the job allows nothing."""
        return self.now or bool(self.errors) or self == RIGID

    @property
    def allows_delay(self) -> bool:
        """Whether the job may wait. A job that may be requeued may also wait before it runs."""
        may_wait = self.checkpoint or self.delay_s is not None or self.deadline_s is not None
        return not self.is_rigid and bool(may_wait)

    @property
    def may_be_capped(self) -> bool:
        """Whether the power of the job's nodes may be capped while it runs."""
        return self.cap and not self.is_rigid

    @property
    def may_be_requeued(self) -> bool:
        """Whether the job may be stopped after a checkpoint, to go on from there later."""
        return self.checkpoint is not None and not self.is_rigid

    def tier(self, submit_s: int) -> Tier:
        """Return the highest tier of a job that was submitted then."""
        if self.may_be_capped:
            return Tier.T4
        if self.may_be_requeued:
            return Tier.T3
        if not self.allows_delay:
            return Tier.T0
        until_deadline_s = None if self.deadline_s is None else self.deadline_s - submit_s
        longest_s = min(each for each in (self.delay_s, until_deadline_s) if each is not None)
        return Tier.T1 if longest_s < DAY_S else Tier.T2

    def text(self, submit_s: int) -> str:
        """Return the tier and what the job allows, such as `T3: may wait, may be requeued after a checkpoint`."""
        allows = (
            ("may wait", self.allows_delay),
            ("may be requeued after a checkpoint", self.may_be_requeued),
            ("may be capped", self.may_be_capped),
        )
        return f"{self.tier(submit_s).name}: {', '.join(text for text, does in allows if does)}"


RIGID = Flexibility()


class FlexibleJob(Protocol):
    """The part of a scheduler's job that declares a flexibility."""

    @property
    def comment(self) -> str:
        """Its comment, or what stands for one."""

    @property
    def qos(self) -> str:
        """Its QOS, "" for none."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that it may start in."""


@dataclass(frozen=True)
class FlexibilityRules:
    """The hints that a site declares by QOS and by partition, such as `delay=2d;cap`; deadlines are in `zone`.

    Jobs of the partitions `untouched` allow nothing, whatever they say.
    """

    zone: tzinfo
    by_qos: Mapping[str, str] = field(default_factory=dict)
    by_partition: Mapping[str, str] = field(default_factory=dict)
    untouched: frozenset[str] = frozenset()

    def of(self, job: FlexibleJob) -> Flexibility:
        """Return the flexibility of the job. Never raises.

        The first of these that has hints decides: its comment, its QOS, its partitions. Several partitions count only
        if all have the same hints.
        """
        if not self.untouched.isdisjoint(job.partitions):
            return Flexibility(now=True)
        own = parse_user_hints(job.comment, self.zone)
        if own != RIGID or not (self.by_qos or self.by_partition):
            return own
        declared = self.by_qos.get(job.qos)
        if declared is None:
            of_partitions = {self.by_partition.get(partition) for partition in job.partitions}
            declared = of_partitions.pop() if len(of_partitions) == 1 else None
        return parse_user_hints(f"{HINT_PREFIX}{declared}", self.zone) if declared else RIGID


def parse_user_hints(comment: str, zone: tzinfo) -> Flexibility:
    """Return the hints of the comment, the strictest of several delays, deadlines or times. Never raises."""
    return _parse_comment(comment, zone) if HINT_PREFIX in comment else RIGID


@lru_cache(maxsize=4096)
def _parse_comment(comment: str, zone: tzinfo) -> Flexibility:
    delays_s, deadlines_s, checkpoints, errors, words = [], [], [], [], set()
    hints = []
    for chunk in comment.split():
        begun = False
        for piece in re.split("[,;]", chunk):
            begun = begun or piece.startswith(HINT_PREFIX)
            if piece.startswith(HINT_PREFIX) or (begun and _HINT.fullmatch(piece)):
                hints.append(piece.removeprefix(HINT_PREFIX))
    for hint in [hint for hint in hints if hint]:
        name, _, value = hint.partition("=")
        try:
            if hint in ("now", "cap"):
                words.add(hint)
            elif name == BROKER_KEY:
                continue
            elif name == "delay":
                delays_s.append(parse_duration_s(value))
            elif name == "deadline":
                deadlines_s.append(_deadline_s(value, zone))
            elif name == "checkpoint":
                checkpoints.append(_checkpoint(value))
            else:
                raise BadInput("unknown hint", hint=EXAMPLES)
        except BadInput as problem:
            errors.append(printable(f"{HINT_PREFIX}{hint}: {problem}; {problem.hint}"))
    return Flexibility(
        min(delays_s, default=None),
        min(deadlines_s, default=None),
        min(checkpoints, default=None, key=lambda each: each.within_s),
        "cap" in words,
        "now" in words,
        tuple(errors),
    )


def _deadline_s(text: str, zone: tzinfo) -> int:
    problem = BadInput(f"{text!r} is not a time", hint="write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00")
    if not _DEADLINE.fullmatch(text):
        raise problem
    try:
        written = datetime.fromisoformat(text)
        if not FIRST_YEAR <= written.year <= LAST_YEAR:
            raise BadInput(f"{text!r} is not between {FIRST_YEAR} and {LAST_YEAR}", hint=problem.hint)
        return int((written if written.tzinfo else written.replace(tzinfo=zone)).timestamp())
    except (ValueError, OverflowError):
        raise problem from None


def _checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint of `10min` or `USR2@10min`, as Slurm writes --signal."""
    signal, at, time = text.rpartition("@")
    if at and signal not in SIGNALS:
        raise BadInput(f"{signal!r} is not a known signal", hint=f"one of {', '.join(SIGNALS)}")
    # "10m" is what other tools write, and nothing else can be meant here.
    within_s = parse_duration_s(re.sub(r"(?<=\d)m$", "min", time))
    if not 0 < within_s < DAY_S:
        raise BadInput(f"{time!r} is not a time for a checkpoint", hint="from 1s to less than a day")
    return Checkpoint(signal or SIGNALS[0], within_s)
