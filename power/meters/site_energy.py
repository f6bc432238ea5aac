"""The energy of a whole site since a start, part by part, and what its meters say of each other."""

from collections.abc import Iterable, Mapping

from power.meters.counter import Counted, contradiction, counted
from power.meters.integrate import Energy, integrated
from power.meters.reconcile import Between, Place, place, reconcile
from power.meters.taken import Taken

Part = tuple[str, str, str, str | None]
"""Meter, way, part, and the node whose power it is, None for none."""

OUTSIDE_IN = (("pdu", ("snmp",)), ("bmc", ("dcmi", "redfish")), ("rapl", ("rapl",)))
"""Where a node is measured, from its outlets inwards, and the ways of reading that measure there."""


def with_taken(so_far: Mapping[Part, Energy], taken: Iterable[Taken], *, longest_hold_s: float) -> dict[Part, Energy]:
    """Return the energies after one more round of readings."""
    sums = dict(so_far)
    for reading in (reading for each in taken for reading in each.readings):
        part = (reading.meter, reading.way, reading.part, reading.node)
        sums[part] = integrated(sums.get(part, Energy()), reading, longest_hold_s=longest_hold_s)
    return sums


COARSEST_STEP_J = 3.6e6
"""Some PDUs count whole kilowatt-hours: what may be their rounding is no contradiction."""


def with_counted(so_far: Mapping[Part, Counted], taken: Iterable[Taken]) -> dict[Part, Counted]:
    """Return what the meters' own counters have counted after one more round of readings."""
    counts = dict(so_far)
    for reading in (reading for each in taken for reading in each.readings):
        part = (reading.meter, reading.way, reading.part, reading.node)
        counts[part] = counted(counts.get(part, Counted()), reading.energy_j)
    return counts


def contradictions(sums: Mapping[Part, Energy], counts: Mapping[Part, Counted]) -> dict[Part, str]:
    """Return how counters contradict the watts of the same time, for the parts where one does."""
    found = {
        part: contradiction(count, sums[part], step_j=COARSEST_STEP_J)
        for part, count in counts.items()
        if count.last_j is not None
    }
    return {part: said for part, said in found.items() if said}


def nodes_of(sums: Mapping[Part, Energy]) -> tuple[str, ...]:
    """Return the nodes that are measured, in the order in which they were met."""
    return tuple(dict.fromkeys(node for _, _, _, node in sums if node is not None))


def places_of(sums: Mapping[Part, Energy], node: str) -> tuple[Place, ...]:
    """Return where a node is measured, from its outlets inwards, as far as all parts there have said something."""
    found = []
    for name, ways in OUTSIDE_IN:
        parts = [energy for (_, way, _, of), energy in sums.items() if of == node and way in ways]
        found.append(place(name, parts))
    return tuple(each for each in found if each is not None)


def between(sums: Mapping[Part, Energy]) -> dict[str, tuple[Between, ...]]:
    """Return for every node that is measured in two places what lies between them."""
    compared = {node: reconcile(places_of(sums, node)) for node in nodes_of(sums)}
    return {node: found for node, found in compared.items() if found}
