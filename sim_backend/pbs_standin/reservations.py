"""The reservations of the simulated OpenPBS: `pbs_rsub`, `pbs_rstat` and `pbs_rdel`, and what they keep from jobs.

Observed with a real 23.06: a reservation shows on its nodes from its confirmation on. A node in state sleep is booked
only while the hook PBS_power is enabled, and only for a start that is ten minutes ahead. While a node of a reservation
sleeps, the reservation is degraded.
"""

from collections.abc import Iterable
from dataclasses import replace

from offpeak.plugin.pbs.commands import limit_s
from offpeak.sim_backend.pbs_standin.output import clock, ctime, vnodes_text
from offpeak.sim_backend.pbs_standin.pbs import POWER, WAKES_IN_S, Pbs, PbsReply, SimReservation
from offpeak.sim_backend.pbs_standin.submission import Options, date_time_s, make_job
from offpeak.sim_backend.scheduler.cluster import SLEEP

UNKNOWN = "pbs_rstat: Unknown Reservation Id\n"


def book(pbs: Pbs, options: Options, user: str, now_s: float) -> PbsReply:
    """Confirm or deny the reservation; with `--hosts` it is one for maintenance, which no job prevents."""
    start_s = date_time_s(options.values["R"])
    lasts_s = limit_s(options.values.get("D")) or date_time_s(options.values["E"]) - start_s
    hosts = options.rest if "-" in options.values else []
    if hosts:
        options.wants["select"] = "+".join(f"1:ncpus={pbs.cluster.nodes[host].cpus}:host={host}" for host in hosts)
        options.wants["place"] = "exclhost"
    options.wants["walltime"] = clock(lasts_s)
    job = make_job(pbs, options, "", user, now_s, None)
    counts_as_up = pbs.attributes.get(POWER) == "True" and start_s >= now_s + WAKES_IN_S
    nodes = {}
    for name, node in pbs.cluster.nodes.items():
        nodes[name] = replace(node, used={})
        if SLEEP in node.shut and counts_as_up:
            nodes[name] = replace(nodes[name], shut=node.shut - {SLEEP}, alive=True)
    pbs.cluster.last_number += 1
    name = f"{'M' if hosts else 'R'}{pbs.cluster.last_number}.{pbs.host}"
    placed = replace(pbs.cluster, nodes=nodes, stepped_s=float(start_s)).place(job)
    if not placed:
        return PbsReply(f"{name} DENIED\n".encode())
    pbs.reservations[name] = SimReservation(name, user, start_s, start_s + lasts_s, placed, dict(options.wants))
    return PbsReply(f"{name} CONFIRMED\n".encode())


def rstat(pbs: Pbs, names: Iterable[str], now_s: float) -> PbsReply:
    """Return what `pbs_rstat -f` prints; an unknown name is an error that ends with 0."""
    wanted = list(names) or list(pbs.reservations)
    found = [pbs.reservations[name] for name in wanted if name in pbs.reservations]
    text = "".join(_record(pbs, reservation, now_s) for reservation in found)
    return PbsReply(text.encode(), UNKNOWN if len(found) < len(wanted) else "")


def _record(pbs: Pbs, reservation: SimReservation, now_s: float) -> str:
    nodes = [pbs.cluster.nodes[name] for name in reservation.placed]
    state = "RESV_CONFIRMED" if all(pbs.cluster.is_open(node) for node in nodes) else "RESV_DEGRADED"
    lasts_s = reservation.end_s - reservation.start_s
    fields = {
        "Reserve_Name": "NULL",
        "Reserve_Owner": f"{reservation.user}@{pbs.host}",
        "reserve_state": "RESV_RUNNING" if reservation.has_begun(now_s) else state,
        "reserve_substate": "5" if reservation.has_begun(now_s) else "2",
        "reserve_start": ctime(reservation.start_s),
        "reserve_end": ctime(reservation.end_s),
        "reserve_duration": str(lasts_s),
        "queue": reservation.name.partition(".")[0],
        "Resource_List.select": reservation.wants["select"],
        "Resource_List.place": reservation.wants.get("place", "free"),
        "Resource_List.walltime": clock(lasts_s),
        "resv_nodes": vnodes_text(reservation.placed),
        "server": pbs.host,
        "Variable_List": f"PBS_O_HOST={pbs.host}",
    }
    lines = [f"Resv ID: {reservation.name}", *(f"{name} = {value}" for name, value in fields.items())]
    return "\n".join([*lines, "", ""])
