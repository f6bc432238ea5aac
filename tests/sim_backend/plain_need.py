"""How soon idle nodes are needed, written plainly: a list entry an observed level, looked through at each question."""

from dataclasses import dataclass, field

from offpeak.plugin.capacity.sleepers import (
    AGES,
    DOUBT_S,
    FIRST_IDLE_S,
    FIRST_NEEDS,
    HOURS,
    NARROW,
    RANKS,
    STEP_S,
    STEPS_AHEAD,
)


@dataclass
class PlainNeed:
    """Remembers all demand there was, (second, nodes) a step, and works everything out from it again."""

    nodes: int
    seen: list[tuple[int, int]] = field(default_factory=list)

    @property
    def demand(self) -> list[int]:
        return [needed for _, needed in self.seen]

    def observed(self) -> list[tuple[int, tuple[int, int], float, float]]:
        """Return hour, kind, weight of the need that came (0 for none) and idle seconds of each level followed."""
        rows = []
        for step in range(len(self.demand) - STEPS_AHEAD):
            ahead = self.demand[step + 1 : step + 1 + STEPS_AHEAD]
            for level in range(self.demand[step], self.nodes):
                when = next((at for at, needed in enumerate(ahead) if needed > level), None)
                rise = 0 if when is None else ahead[when] - self.demand[step + when]
                need = 1 + NARROW / rise if rise else 0.0
                idle_s = STEP_S * (STEPS_AHEAD if when is None else when + 1)
                rows.append((hour_of(self.seen[step][0]), self.kind(step, level), need, idle_s))
        return rows

    def kind(self, step: int, level: int) -> tuple[int, int]:
        """Return the range of ranks and of idle times that a level is in at a step."""
        rank = level - self.demand[step] + 1
        used = [at for at in range(step + 1) if self.demand[at] > level]
        idle_s = self.seen[step][0] - self.seen[used[-1]][0] if used else 10**9
        ranks = [2**power for power in range(1, RANKS)]
        ages_s = [STEP_S * 2**power for power in range(AGES - 1)]
        return sum(rank >= least for least in ranks), sum(idle_s >= least_s for least_s in ages_s)

    def rates(self) -> list[float]:
        """Return the needs expected of a second of idling, of each idle level now, the first to be used first."""
        rows, (now_s, needed) = self.observed(), self.seen[-1]
        kinds = [self.kind(len(self.seen) - 1, level) for level in range(needed, self.nodes)]
        return [self.rate(rows, hour_of(now_s), kind) for kind in kinds]

    def last_rank(self, needs_per_s: float) -> int:
        """Return the last rank of which at least so many needs a second are expected, or 0."""
        return max((rank for rank, rate in enumerate(self.rates(), 1) if rate >= needs_per_s), default=0)

    def rate(self, rows, hour: int, kind: tuple[int, int]) -> float:
        alike = [row for row in rows if row[1] == kind]
        usual = (FIRST_NEEDS + sum(row[2] for row in alike)) / (FIRST_IDLE_S + sum(row[3] for row in alike))
        now = [row for row in alike if row[0] == hour]
        return (sum(row[2] for row in now) + usual * DOUBT_S) / (sum(row[3] for row in now) + DOUBT_S)


def hour_of(now_s: int) -> int:
    """Return the hour of the day."""
    return now_s // 3600 % HOURS
