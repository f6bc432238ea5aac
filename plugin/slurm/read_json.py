"""Slurm as its commands tell it in JSON."""

import re

from plugin.slurm import reservations_text
from plugin.slurm.ask import ask
from plugin.slurm.jobs_json import jobs_of_json
from plugin.slurm.nodes_json import nodes_of_json, reservations_of_json
from plugin.slurm.reading import Reading
from plugin.slurm.reservations_text import reservations_of_text

JOBS = ("--all", "--local", "--states=all", "--json")
# From this version on scontrol speaks JSON too, and sinfo's no longer tells of single nodes.
SCONTROL_SPEAKS_JSON = (23, 2)

_VERSION = re.compile(rb"(\d+)\.(\d+)")


def read_json(timeout_s: float) -> Reading:
    """Return jobs, nodes and reservations; CannotAskSlurm where Slurm cannot tell, or lists an error in its answer."""
    jobs = jobs_of_json(ask("squeue", *JOBS, timeout_s=timeout_s), source="squeue --json")
    if slurm_version(timeout_s) < SCONTROL_SPEAKS_JSON:
        nodes = nodes_of_json(ask("sinfo", "--all", "--json", timeout_s=timeout_s), source="sinfo --json")
        reservations = ask("scontrol", *reservations_text.ARGUMENTS, timeout_s=timeout_s)
        return Reading(jobs, nodes, reservations_of_text(reservations))
    return Reading(
        jobs,
        nodes_of_json(_show("nodes", timeout_s), source="scontrol show nodes --json"),
        reservations_of_json(_show("reservations", timeout_s), source="scontrol show reservations --json"),
    )


def slurm_version(timeout_s: float) -> tuple[int, int]:
    """Return the version of Slurm's commands, 22.05 as (22, 5); (0, 0) if they do not tell."""
    match = _VERSION.search(ask("sinfo", "--version", timeout_s=timeout_s))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _show(what: str, timeout_s: float) -> bytes:
    return ask("scontrol", "--all", "show", what, "--json", timeout_s=timeout_s)
