"""The reservations of an OpenPBS server, as `pbs_rstat -f` prints them, and what they mean for nodes.

A reservation shows on its nodes as soon as it is confirmed, days before it begins: until then jobs may use the nodes,
and they may sleep. A node counts as reserved if one of its reservations has begun, or if the times of one are not
known. Of a standing reservation the server shows the next occurrence only.

A user's text may contain line breaks, and look like a reservation. Therefore a reservation with contradictory fields is
not known, and a reservation has only nodes that name it themselves.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from offpeak.model.orders import PowerState
from offpeak.plugin.pbs.commands import as_int, as_text, ctime_s, json_records, parse_json
from offpeak.plugin.scheduler.node import Node, NodeUse, Reservation

RSTAT = ("pbs_rstat", "-f")
EXCLUSIVE, UNDER_MAINTENANCE = "resv-exclusive", "maintenance"
"""The states of a node whose reservation has begun and shares it with no other job, and of one under maintenance."""
MAINTENANCE = "M"
"""The first letter of the name of a reservation by `pbs_rsub --hosts`, which takes whole hosts even from jobs."""
ALL_CPUS = 1 << 20

_RECORD = re.compile(r"^Resv ID: (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^(reserve_start|reserve_end|resv_nodes|Resource_List\.place) = (.*)$", re.MULTILINE)


class ReservedCpus(NamedTuple):
    """A reservation's processors on a node, and its times [Unix s]."""

    start_s: int
    end_s: int
    cpus: int


class PbsReservation(NamedTuple):
    """A reservation from `start_s` to `end_s` [Unix s], and its processors by node."""

    name: str
    start_s: int
    end_s: int
    cpus: Mapping[str, int]


class ReservedNodes(NamedTuple):
    """The nodes with `reserved` set, the known reservations, and their processors and times by node."""

    nodes: tuple[Node, ...]
    reservations: tuple[Reservation, ...] = ()
    times: Mapping[str, Sequence[ReservedCpus]] = {}


def reservation_names(answer: bytes) -> dict[str, tuple[str, ...]]:
    """Return the names of the reservations of each node that has any, from `pbsnodes -a -F json`."""
    records = json_records(parse_json(answer, source="pbsnodes -a -F json"), "nodes")
    named = ((node, as_text(record.get("resv"))) for node, record in records.items())
    return {node: tuple(part.strip() for part in names.split(",")) for node, names in named if names}


def parse_reservations(answer: bytes) -> tuple[dict[str, PbsReservation], tuple[str, ...]]:
    """Return the reservations whose times are known, by name, and the names of the others."""
    pieces = _RECORD.split(answer.decode(errors="replace"))[1:]
    names = [name.strip() for name in pieces[::2]]
    parsed = [_parse_record(name, text) for name, text in zip(names, pieces[1::2], strict=True)]
    known = {each.name: each for each in parsed if each is not None and names.count(each.name) == 1}
    return known, tuple(dict.fromkeys(name for name in names if name not in known))


def _parse_record(name: str, text: str) -> PbsReservation | None:
    fields = _FIELD.findall(text)
    values = dict(fields)
    if len(values) < len(fields):
        return None
    start_s, end_s = ctime_s(values.get("reserve_start", "")), ctime_s(values.get("reserve_end", ""))
    if start_s is None or end_s is None or start_s >= end_s:
        return None
    is_exclusive = "excl" in values.get("Resource_List.place", "")
    return PbsReservation(name, start_s, end_s, _parse_nodes(values.get("resv_nodes", ""), is_exclusive=is_exclusive))


def _parse_nodes(placement: str, *, is_exclusive: bool) -> dict[str, int]:
    """Return the processors by node of `(n1:ncpus=8)+(n2:ncpus=4:mem=1kb+n3:ncpus=4)`."""
    found: dict[str, int] = {}
    for part in filter(None, re.split(r"[()+]+", placement)):
        node, *amounts = part.split(":")
        cpus = sum(as_int(amount.removeprefix("ncpus=")) for amount in amounts if amount.startswith("ncpus="))
        found[node] = ALL_CPUS if is_exclusive else found.get(node, 0) + cpus
    return found


def apply_reservations(
    nodes: Sequence[Node], named: Mapping[str, Sequence[str]], known: Mapping[str, PbsReservation], now_s: int
) -> ReservedNodes:
    """Return the nodes with `reserved` as it is now; `named` are the names of each node's reservations.

    A node that is reserved for an unknown time gets no times at all. The server counts the processors of a reservation
    that has begun as used, also of one for maintenance: a sleeping node is not woken for that.
    """
    found: list[Node] = []
    times: dict[str, Sequence[ReservedCpus]] = {}
    members: dict[str, list[str]] = {}
    for node in nodes:
        own = [known.get(name) for name in named.get(node.name, ())]
        clear = [each for each in own if each is not None and node.name in each.cpus and each.end_s > now_s]
        has_begun = any(each.start_s <= now_s for each in clear)
        states = node.native_state.split(",")
        is_unclear = len(clear) < len(own) or UNDER_MAINTENANCE in states or (EXCLUSIVE in states and not has_begun)
        is_used = node.power is not PowerState.OFF or any(
            not name.startswith(MAINTENANCE) and (name not in known or known[name].start_s <= now_s)
            for name in named.get(node.name, ())
        )
        reserved = is_unclear or has_begun
        found.append(node._replace(reserved=reserved, use=node.use if is_used or not reserved else NodeUse.FREE))
        for each in clear:
            members.setdefault(each.name, []).append(node.name)
        if clear and not is_unclear:
            times[node.name] = [ReservedCpus(each.start_s, each.end_s, each.cpus[node.name]) for each in clear]
    reservations = (
        Reservation(name, known[name].start_s, known[name].end_s, tuple(hosts), name.startswith(MAINTENANCE))
        for name, hosts in members.items()
    )
    return ReservedNodes(tuple(found), tuple(reservations), times)
