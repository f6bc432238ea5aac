"""The lines that an agent would write about troubles, counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.soak.site import Look
from offpeak.errors import OffpeakError
from power.drivers.poll import ReportedProblem, limit_repeats


@dataclass
class Log:
    """Counts lines by device. Nothing is written."""

    lines: Counter[str] = field(default_factory=Counter)
    _reported: dict[str, ReportedProblem | None] = field(default_factory=dict)

    def hear(self, look: Look, at_s: float) -> None:
        """Take the troubles of one sweep."""
        for device, trouble in _troubles(look).items():
            reported = self._reported.get(device)
            self._reported[device], line = limit_repeats(reported, str(trouble) if trouble else None, at_unix_s=at_s)
            self.lines[device] += line is not None


def _troubles(look: Look) -> Mapping[str, OffpeakError | None]:
    """Return the trouble of every device that was asked, that of a BMC's state before that of its watts."""
    of_meters = {taken.meter: taken.trouble for taken in look.taken}
    return of_meters | {node: seen.trouble or of_meters.get(node) for node, seen in look.states.items()}
