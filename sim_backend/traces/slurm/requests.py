"""The requests of Slurm's jobs, from what sacct says they requested and were given: TRES, partition, QOS, constraints.

sacct shows a job's processors, memory and GPUs over all of its nodes, and neither tasks nor the memory of a node. This
module derives the terms of the request from these totals, as squeue shows them; plugin.slurm parses the terms. Each
node of a job is taken for an equal part of it. A job that was given more nodes than it requested has set tasks only.
"""

from collections.abc import Mapping
from typing import NamedTuple

from offpeak.model.request import Request
from plugin.slurm.requests import RequestTerms, Tres, parse_request, parse_tres, requested_tres

REQUEST_COLUMNS = ("ReqTRES", "AllocTRES", "QOS", "Reservation", "Constraints")
"""The columns of requests, in addition to the partition and the allocation."""

WHOLE_NODES = 2
"""A job that was given more than so many times the processors that it requested has its nodes alone: a scheduler that
gives out whole cores gives at most two threads for one."""


class SlurmRow(NamedTuple):
    """The request and the allocation of a job in a line, as text of sacct."""

    texts: Mapping[str, bytes]
    partition: str
    nodes: int
    cpus: int

    def text(self, name: str) -> str:
        """Return a text, "" if the dump has no such column."""
        return self.texts.get(name, b"").decode(errors="replace").strip()


def request_of(row: SlurmRow) -> Request | None:
    """Return the request; None if the line does not tell it. A constraint that makes no sense is left out.

    Slurm leaves ReqTRES empty for some jobs that end at once: what such a job was given counts as its request.
    """
    given = parse_tres(row.text("AllocTRES")) or Tres()
    column = "ReqTRES" if row.text("ReqTRES") else "AllocTRES"
    requested = parse_tres(row.text(column))
    if requested is None or not requested.cpus or row.nodes <= 0:
        return None
    terms = _terms(row, requested, given, requested_tres(row.text(column)))
    request, problem = parse_request(terms)
    return parse_request(terms._replace(features=""))[0] if problem else request


def _terms(row: SlurmRow, requested: Tres, given: Tres, tres: str) -> RequestTerms:
    cpus = row.cpus or given.cpus or requested.cpus
    whole_nodes = cpus > WHOLE_NODES * requested.cpus
    cores = requested.cpus if whole_nodes else max(cpus, requested.cpus)
    # A job that requests only tasks may spread over more nodes than it requests.
    apart = row.nodes <= max(requested.nodes, 1) or whole_nodes or requested.gpus > 0
    # Where Slurm does not manage memory, a job that requests none is listed with all memory of its nodes.
    memory_mib = 0 if given.cpus and not given.memory_mib else requested.memory_mib
    return RequestTerms(
        partitions=row.partition,
        nodes=row.nodes if apart else max(requested.nodes, 1),
        tasks=row.nodes if apart else cores,
        cpus=cores,
        min_cpus=1,
        memory_mib=-(-memory_mib // (row.nodes if apart else cores)),
        memory_per_cpu=not apart,
        features=row.text("Constraints"),
        reservation=row.text("Reservation"),
        qos=row.text("QOS"),
        hosts="",
        excluded="",
        licences="",
        whole_nodes=whole_nodes,
        # The model has no requests of several types of GPUs: any GPUs are taken.
        per_job=tres if requested.gpu_type else _without_types(tres, requested.gpus),
        per_node="",
        per_socket="",
        per_task="",
    )


def _without_types(tres: str, gpus: int) -> str:
    others = [entry for entry in tres.split(",") if not entry.startswith("gres/gpu")]
    return ",".join([*others, f"gres/gpu={gpus}"]) if gpus else tres
