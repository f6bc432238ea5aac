"""Draws that a site declares for jobs by their name, user, account or partition: "hot*=400W", "partition:gpu=900W"."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property

from offpeak.errors import BadSetting
from offpeak.model.job_power import ConstantPower, parse_power_model
from offpeak.model.units import parse_power_w
from offpeak.settings.replay import PowerSettings
from offpeak.text import did_you_mean
from plugin.scheduler.job import Job
from power.accounts.draw import Draw

OF: Mapping[str, Callable[[Job], Sequence[str]]] = {
    "name": lambda job: (job.name,),
    "user": lambda job: (job.user,),
    "account": lambda job: (job.account,),
    "partition": lambda job: job.partitions,
}
HINT = 'write it like "hot*=400W" for names of jobs, "user:ann=300W", "account:chem*=350W" or "partition:gpu=900W"'


@dataclass(frozen=True)
class Declared:
    """Jobs of which that column fits the pattern draw `node_w` [W per node]; `text` is how it was declared."""

    column: str
    pattern: str
    node_w: float
    text: str

    def fits(self, job: Job) -> bool:
        """Whether it speaks of this job."""
        return any(map(self._fits, OF[self.column](job)))

    @cached_property
    def draw(self) -> Draw:
        """What those jobs draw."""
        return Draw(self.node_w, f"declared: {self.text}")

    @cached_property
    def _fits(self) -> Callable[[str], object]:
        return re.compile(translate(self.pattern)).match


def declared_by(power: PowerSettings) -> tuple[Declared, ...]:
    """Return what a site's settings say of its jobs: their classes, and one draw for all others if `job` is constant.

    BadSetting or BadInput for what cannot be read. The other models of `job` are for logs: they say nothing here.
    """
    model = parse_power_model(power.job) if power.job else None
    rest = (Declared("name", "*", model.power_w, power.job or ""),) if isinstance(model, ConstantPower) else ()
    return (*parse_declared(power.classes or ()), *rest)


def parse_declared(texts: Sequence[str]) -> tuple[Declared, ...]:
    """Return what is declared, in the order in which it counts; BadSetting for what cannot be read."""
    return tuple(_parsed(text) for text in texts)


def _parsed(text: str) -> Declared:
    what, equals, power = text.rpartition("=")
    column, colon, pattern = what.strip().rpartition(":")
    column = column.strip() if colon else "name"
    if not equals or not pattern.strip():
        raise BadSetting(f"[power] classes: {text!r} is no draw of jobs", hint=HINT)
    if column not in OF:
        raise BadSetting(f"[power] classes: {text!r}: {column!r} is unknown", hint=did_you_mean(column, OF))
    node_w = parse_power_w(power)
    if node_w <= 0:
        raise BadSetting(f"[power] classes: {text!r}: a running job draws something", hint=HINT)
    return Declared(column, pattern.strip(), node_w, text)


def declared_draw(job: Job, declared: Sequence[Declared]) -> Draw | None:
    """Return what the first says that speaks of the job, None if none does."""
    for each in declared:
        if each.fits(job):
            return each.draw
    return None
