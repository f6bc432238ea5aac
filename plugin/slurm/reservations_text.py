"""The reservations that `scontrol --all --oneliner show reservations` prints, one a line."""

import re

from offpeak.machines.node_sets import expand
from plugin.scheduler.node import Reservation
from plugin.slurm.words import parts, plain, unix_s

ARGUMENTS = ("--all", "--oneliner", "show", "reservations")

_FIELD = re.compile(r"(?:^|\s)([A-Z]\w+)=(\S*)")


def reservations_of_text(text: bytes) -> tuple[Reservation, ...]:
    """Return the reservations of scontrol's answer."""
    lines = text.decode(errors="replace").splitlines()
    return tuple(_reservation(dict(_FIELD.findall(line))) for line in lines if line.startswith("ReservationName="))


def _reservation(fields: dict[str, str]) -> Reservation:
    nodes = plain(fields.get("Nodes", ""))
    return Reservation(
        fields["ReservationName"],
        unix_s(fields.get("StartTime", "")) or 0,
        unix_s(fields.get("EndTime", "")) or 0,
        expand(nodes) if nodes else (),
        "MAINT" in parts(fields.get("Flags", "")),
    )
