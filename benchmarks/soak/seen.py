"""What a soak has found out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.soak.checks import SILENT_FAULTS, SLOW_FAULTS, lacking, wrong
from benchmarks.soak.faults import Faults
from benchmarks.soak.footprint import Footprint
from benchmarks.soak.ledger import EnergyLedger
from benchmarks.soak.site import Look
from benchmarks.soak.truth import Truth
from offpeak.errors import OffpeakError
from offpeak.power.drivers.poll import ReportedProblem, limit_repeats


@dataclass
class Log:
    """Counts lines by device. Nothing is written."""

    lines: Counter[str] = field(default_factory=Counter)
    _reported: dict[str, ReportedProblem | None] = field(default_factory=dict)

    def hear(self, look: Look, at_s: float) -> None:
        """Log the errors of one sweep."""
        for device, error in _device_errors(look).items():
            reported = self._reported.get(device)
            self._reported[device], line = limit_repeats(reported, str(error) if error else None, at_unix_s=at_s)
            self.lines[device] += line is not None


def _device_errors(look: Look) -> Mapping[str, OffpeakError | None]:
    """Return the error of every device that was polled: that of a BMC's state, else that of its meter."""
    of_meters = {taken.meter: taken.error for taken in look.taken}
    return of_meters | {node: seen.error or of_meters.get(node) for node, seen in look.states.items()}


@dataclass
class Seen:
    """Findings so far, in words: answers that were `wrong`, those `lacking`, and `leaks` of sessions.

    `slowest_s` is the longest that a BMC without fault took to tell its state; `left_sessions` the most sessions that
    one BMC held open since it was ill, and nobody could close.
    """

    ledger: EnergyLedger
    log: Log = field(default_factory=Log)
    wrong: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    left_sessions: int = 0

    def before_sweep(self, truth: Truth) -> None:
        """Take in what the room says between two sweeps."""
        self.leaks += leaks_of(truth)
        self.left_sessions = max(self.left_sessions, *(node.left_sessions for node in truth.nodes.values()))
        self.ledger.pass_to(truth)

    def after_sweep(self, look: Look, truth: Truth, faults: Faults, at_s: float) -> None:
        """Take in what a sweep saw."""
        self.wrong += wrong(look, truth, faults)
        self.lacking += lacking(look, truth, faults)
        self.faults.update(faults.values())
        self.slowest_s = max(self.slowest_s, *well_s(look.after_s, faults))
        self.log.hear(look, at_s)
        self.ledger.read(look.taken, truth)


def leaks_of(truth: Truth) -> Iterator[str]:
    """Yield the BMCs with more than one session in use."""
    for node, each in truth.nodes.items():
        if each.sessions > 1:
            yield f"{node}: {each.sessions} sessions"


def well_s(after_s: Mapping[str, float], faults: Faults) -> Iterator[float]:
    """Yield how long [s] the BMCs took that had no reason to be late."""
    yield 0.0
    yield from (took_s for node, took_s in after_s.items() if faults.get(node) not in (*SILENT_FAULTS, *SLOW_FAULTS))
