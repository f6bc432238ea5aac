"""What the meters of a quarter-hour say of each other: outlets, BMCs and processors, and counters beside watts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from power.meters.energy import (
    CounterTotal,
    Energy,
    Part,
    add_counter_values,
    add_readings,
    compare_meters,
    find_contradictions,
)
from power.meters.port import MeterResult

COMPARED_S = 900.0


@dataclass(frozen=True)
class Compared:
    """The energies since `since_s` (monotonic), and what was found wrong at the last comparison, by what it is of."""

    since_s: float
    sums: Mapping[Part, Energy] = field(default_factory=dict)
    counts: Mapping[Part, CounterTotal] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def compared(
    before: Compared, taken: Iterable[MeterResult], *, now_s: float, longest_hold_s: float
) -> tuple[Compared, tuple[str, ...]]:
    """Return the energies after a round, and once in a quarter-hour what has gone wrong or well since the last."""
    read = tuple(taken)
    after = replace(
        before,
        sums=add_readings(before.sums, read, longest_hold_s=longest_hold_s),
        counts=add_counter_values(before.counts, read),
    )
    if now_s - before.since_s < COMPARED_S:
        return after, ()
    wrong = _wrong(after)
    begun = [f"{of}: {said}" for of, said in wrong.items() if of not in before.wrong]
    ended = [f"{of}: agree again" for of in before.wrong if of not in wrong]
    return Compared(now_s, wrong=wrong), (*begun, *ended)


def _wrong(found: Compared) -> dict[str, str]:
    places = {
        f"{node}, {each.outer} and {each.inner}": each.trouble
        for node, of_node in compare_meters(found.sums).items()
        for each in of_node
        if each.trouble
    }
    counters = find_contradictions(found.sums, found.counts).items()
    return places | {f"{meter} {part}, counter and watts": said for (meter, _, part, _), said in counters}
