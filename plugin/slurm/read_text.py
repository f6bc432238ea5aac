"""Slurm as its commands print it, in the text that every version prints alike."""

import secrets

from plugin.slurm import nodes_text, reservations_text
from plugin.slurm.ask import ask
from plugin.slurm.jobs_text import jobs_of_text, squeue_arguments
from plugin.slurm.nodes_text import nodes_of_text
from plugin.slurm.reading import Reading
from plugin.slurm.reservations_text import reservations_of_text


def read_text(timeout_s: float) -> Reading:
    """Return jobs, nodes and reservations; CannotAskSlurm where Slurm cannot tell."""
    # No user can guess it and so write lines of other jobs into the name of his own.
    end = f"\x1e{secrets.token_hex(8)}"
    jobs = jobs_of_text(ask("squeue", *squeue_arguments(end), timeout_s=timeout_s), end)
    nodes = nodes_of_text(ask("scontrol", *nodes_text.ARGUMENTS, timeout_s=timeout_s))
    reservations = reservations_of_text(ask("scontrol", *reservations_text.ARGUMENTS, timeout_s=timeout_s))
    return Reading(jobs, nodes, reservations)
