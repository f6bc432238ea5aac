"""What the meters of a quarter-hour say of each other: outlets, BMCs and processors, and counters beside watts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from power.meters.counter import Counted
from power.meters.integrate import Energy
from power.meters.site_energy import Part, between, contradictions, with_counted, with_taken
from power.meters.taken import Taken

COMPARED_S = 900.0


@dataclass(frozen=True)
class Compared:
    """The energies since `since_s` (monotonic), and what was found wrong at the last comparison, by what it is of."""

    since_s: float
    sums: Mapping[Part, Energy] = field(default_factory=dict)
    counts: Mapping[Part, Counted] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


def compared(
    before: Compared, taken: Iterable[Taken], *, now_s: float, longest_hold_s: float
) -> tuple[Compared, tuple[str, ...]]:
    """Return the energies after a round, and once in a quarter-hour what has gone wrong or well since the last."""
    read = tuple(taken)
    after = replace(
        before,
        sums=with_taken(before.sums, read, longest_hold_s=longest_hold_s),
        counts=with_counted(before.counts, read),
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
        for node, of_node in between(found.sums).items()
        for each in of_node
        if each.trouble
    }
    counters = contradictions(found.sums, found.counts).items()
    return places | {f"{meter} {part}, counter and watts": said for (meter, _, part, _), said in counters}
