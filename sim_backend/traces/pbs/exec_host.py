"""What the attribute exec_host says: on how many nodes, and on how many processors of them, a job ran."""

import re
from functools import lru_cache
from typing import NamedTuple

# Torque 4: n001/0+n001/1, Torque 6: n001/0-3,6+n002/0, OpenPBS: n001/0*4+n002/1*4 (chunk number, processors).
PLACE = re.compile(rb"([^/+]+)/([0-9]{1,9})(?:\*([0-9]{1,9})|((?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*))")


class Places(NamedTuple):
    """How much of the machine a job had."""

    nodes: int
    processors: int


@lru_cache(maxsize=1024)
def places_of(exec_host: bytes) -> Places:
    """Count the hosts, each once, and the processors; ValueError if it is written in no known way."""
    hosts = set()
    processors = 0
    for place in exec_host.split(b"+"):
        match = PLACE.fullmatch(place)
        if match is None:
            raise ValueError(f"exec_host cannot be read: {place[:40].decode(errors='replace')!r}")
        host, slot, chunk, more_slots = match.groups()
        hosts.add(host)
        processors += int(chunk) if chunk else _slots(slot + more_slots)
    return Places(len(hosts), processors)


def _slots(ranges: bytes) -> int:
    count = 0
    for each in ranges.split(b","):
        first, _, last = each.partition(b"-")
        count += max(int(last or first) - int(first) + 1, 0)
    return count
