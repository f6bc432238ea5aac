"""What a soak of cycles has found out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.soak.footprint import Footprint
from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.plan import CyclesPlan
from benchmarks.soak_cycles.room import CyclesRoom
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.effect import Effect, Outcome, Refusal


@dataclass
class Found:
    """Counts and samples. `rss_mib` are of the sweeps since the restart, after the first day: limits remember a day."""

    plan: CyclesPlan
    room: CyclesRoom
    witness: Witness
    clock: RoomClock
    before: Footprint
    after: Footprint
    answers: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    rss_mib: list[float] = field(default_factory=list)
    actions: int = 0
    passed: int = 0
    converged_sweeps: int = 0
    shadow_orders: int = 0
    lost_rows: int = 0
    open_sessions: int = 0
    took_s: float = 0.0

    def hear(self, answers: Iterable[tuple[Effect, Outcome | Refusal]]) -> None:
        """Count what the door answered."""
        for _, answer in answers:
            self.answers[f"refused by {answer.rule}" if isinstance(answer, Refusal) else answer.result] += 1
