"""Nodes that sleep, in plain Python: one object a node, one method for each thing that may happen to it."""

from dataclasses import dataclass, field

from offpeak.model.node_states import ACTIVE, FAILED, POWERSAVE, asleep, coming_up, going_down
from offpeak.plugin.capacity.rules import BY_IDLE_AGE, BY_WEAR, NEVER, DepthTable

TERM = 2**64
DAY_S = 86_400
LONG_AGO_S = -(10**12)


def splitmix(number: int) -> int:
    """Return the rounds of splitmix64 that `offpeak.sim_backend.engine.power_transitions.chance` makes."""
    for _ in range(2):
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % TERM
        number = (number ^ number >> 27) * 0x94D049BB133111EB % TERM
        number = ((number ^ number >> 31) + 0x9E3779B97F4A7C15) % TERM
    return number


def chance(seed: int, node: int, draw: int) -> float:
    """Return the number in [0, 1) of that draw."""
    number = seed * 0xBF58476D1CE4E5B9 + node * 0x94D049BB133111EB + (draw + 1) * 0x9E3779B97F4A7C15
    return (splitmix(number % TERM) >> 11) / 2**53


@dataclass
class PlainNode:
    """`free`: the numbers of its units without a job. `log`: what it entered when. `deeper`: where it rises to only."""

    number: int
    units: int
    depths: DepthTable
    idle_since_s: int
    state: int = ACTIVE
    woken_s: int = LONG_AGO_S
    slept_s: int = LONG_AGO_S
    ready_s: int | None = None
    called_s: int | None = None
    fails: bool = False
    deeper: int | None = None
    draws: int = 0
    cycles: list[int] = field(default_factory=list)
    log: list[tuple[int, int]] = field(default_factory=list)
    free: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = set(range(self.number * self.units, (self.number + 1) * self.units))

    @property
    def idle(self) -> bool:
        """Whether no job has a unit of it."""
        return len(self.free) == self.units

    @property
    def sleeps(self) -> bool:
        return self.state in (asleep(0), asleep(1), asleep(2))

    @property
    def rises(self) -> bool:
        return self.state in (coming_up(0), coming_up(1), coming_up(2))

    @property
    def falls(self) -> bool:
        return self.state in (going_down(0), going_down(1), going_down(2))

    @property
    def depth(self) -> int:
        """The depth that it sleeps in, enters or leaves."""
        return (self.state - 2) // 3

    def enter(self, state: int, now_s: int) -> None:
        self.state = state
        self.log.append((now_s, state))

    def will_fail(self, probability: float) -> bool:
        if probability <= 0:
            return False
        self.draws += 1
        return chance(self.depths.seed, self.number, self.draws - 1) < probability

    def go_down(self, depth: int, now_s: int) -> None:
        """Go into `depth`; the way into powersave is no power cycle."""
        self.enter(going_down(depth), now_s)
        if depth != POWERSAVE:
            self.cycles.append(now_s // DAY_S)
        self.fails = self.will_fail(self.depths.enter_failure[depth])
        self.ready_s = now_s + int(self.depths.enter_s[depth])
        self.arrive(now_s)

    def wake(self, called_s: int, now_s: int) -> None:
        """Come up: the way begins at `called_s`, until then it is only known that it will."""
        depth = self.depth
        self.state = coming_up(depth)
        self.called_s = called_s
        self.fails = self.will_fail(self.depths.leave_failure[depth])
        self.ready_s = called_s + int(self.depths.leave_s[depth])
        self.arrive(now_s)

    def arrive(self, now_s: int) -> None:
        """End the transition whose time has come."""
        if self.called_s is not None and self.called_s <= now_s:
            self.called_s = None
            self.enter(self.state, now_s)
        if self.ready_s is None or self.ready_s > now_s:
            return
        self.ready_s = None
        if self.state == FAILED:
            self.idle_since_s = now_s
            self.enter_active(now_s)
        elif self.fails:
            self.fail(now_s)
        elif self.falls:
            self.enter(self.state + 1, now_s)
        elif self.deeper is not None:
            depth, self.deeper = self.deeper, None
            self.go_down(depth, now_s)
        else:
            self.enter_active(now_s)

    def enter_active(self, now_s: int) -> None:
        self.enter(ACTIVE, now_s)
        self.woken_s = now_s

    def fail(self, now_s: int) -> None:
        self.fails, self.deeper = False, None
        self.enter(FAILED, now_s)
        if self.depths.repair_s != NEVER:
            self.ready_s = now_s + self.depths.repair_s

    def is_spent(self, most_per_day: int, now_s: int) -> bool:
        return 0 < most_per_day <= self.cycles.count(now_s // DAY_S)

    def sleep_key(self, order: int, now_s: int) -> tuple[int, int]:
        """Sort nodes by this, and those come first that sleep first: at ties the highest-numbered."""
        key = {BY_IDLE_AGE: self.idle_since_s, BY_WEAR: self.cycles.count(now_s // DAY_S)}.get(order, 0)
        return key, -self.number


def due_depth(after_s: list[int], age_s: int) -> int | None:
    """Return the deepest depth whose time has come."""
    due = [depth for depth, needed_s in enumerate(after_s) if needed_s != NEVER and needed_s <= age_s]
    return max(due, default=None)
