"""Which families a PDU may be of, by its sysObjectID: the likeliest first."""

from collections.abc import Iterator

from power.meters.snmp.family import Family
from power.meters.snmp.family_file import bundled_family, bundled_names

SYSTEM = "1.3.6.1.2.1.1.2.0"


def candidates(system: str) -> Iterator[Family]:
    """Give every bundled family for that PDU, those first that know the longest beginning of a sysObjectID."""
    families = [bundled_family(name).for_system(system) for name in bundled_names()]
    yield from sorted(families, key=lambda family: -_known(family, system))


def is_of(family: Family, system: str) -> bool:
    """Tell whether a sysObjectID is one of that family."""
    return _known(family, system) > 0


def _known(family: Family, system: str) -> int:
    starts = (prefix for prefix in family.detect if f"{system.removeprefix('.')}.".startswith(f"{prefix}."))
    return max(map(len, starts), default=0)
