"""The energy of a whole site since a start, part by part, and what its meters say of each other."""

from collections.abc import Iterable, Mapping

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
