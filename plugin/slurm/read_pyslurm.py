"""Slurm as pyslurm tells it, where that is installed and made for this version of Slurm."""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from plugin.slurm import reservations_text
from plugin.slurm.ask import CannotAskSlurm, SlurmIsSilent, ask
from plugin.slurm.jobs_json import jobs_of_json
from plugin.slurm.nodes_json import nodes_of_json
from plugin.slurm.read_json import slurm_version
from plugin.slurm.reading import Reading
from plugin.slurm.reservations_text import reservations_of_text

CHILD = Path(__file__).with_name("pyslurm_child.py")

INSTEAD = 'write read = "text" below [slurm]'

_MAJOR = re.compile(r"(\d+)\.(\d+)")


def read_pyslurm(timeout_s: float) -> Reading:
    """Return jobs and nodes from pyslurm, reservations from scontrol; CannotAskSlurm if it does not fit."""
    check_pyslurm(timeout_s)
    try:
        # -P: the folder of the program is not searched for imports.
        answer = ask(sys.executable, "-P", str(CHILD), timeout_s=timeout_s)
    except SlurmIsSilent:
        raise SlurmIsSilent(f"pyslurm: no answer within {timeout_s:g} s", hint=INSTEAD) from None
    except CannotAskSlurm as problem:
        raise CannotAskSlurm(f"pyslurm: {str(problem).partition(': ')[2]}", hint=INSTEAD) from None
    reservations = ask("scontrol", *reservations_text.ARGUMENTS, timeout_s=timeout_s)
    return Reading(
        jobs_of_json(answer, source="pyslurm"),
        nodes_of_json(answer, source="pyslurm"),
        reservations_of_text(reservations),
    )


def check_pyslurm(timeout_s: float) -> None:
    """Return if pyslurm is installed and of Slurm's own version, by year and month; CannotAskSlurm if not."""
    major, minor = slurm_version(timeout_s)
    try:
        installed = version("pyslurm")
    except PackageNotFoundError:
        hint = f"pip install 'pyslurm=={major}.{minor}.*' where Slurm's headers are, or {INSTEAD}"
        raise CannotAskSlurm("pyslurm: is not installed", hint=hint) from None
    match = _MAJOR.match(installed)
    if not match or (int(match[1]), int(match[2])) != (major, minor):
        told = f"pyslurm: {installed} is not made for Slurm {major}.{minor:02}"
        raise CannotAskSlurm(told, hint=f"pip install 'pyslurm=={major}.{minor}.*', or {INSTEAD}")
