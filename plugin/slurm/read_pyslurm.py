"""Slurm as pyslurm tells it, where that is installed and made for this version of Slurm."""

import json
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from offpeak.installation import install_hint
from plugin.slurm import reservations_text
from plugin.slurm.ask import CannotAskSlurm, ask
from plugin.slurm.jobs_json import jobs_of_json
from plugin.slurm.nodes_json import nodes_of_json
from plugin.slurm.read_json import slurm_version
from plugin.slurm.reading import Reading
from plugin.slurm.reservations_text import reservations_of_text

CHILD = Path(__file__).with_name("pyslurm_child.py")

TRES = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
"""What pyslurm cannot tell: its tres_per_node is None for a GRES, its tres_per_task an object."""
TRES_ARGUMENTS = (
    *("--all", "--local", "--noheader", "--noconvert", "--array", "--states=all"),
    "--Format=JobID:|," + ":|,".join(name.replace("_", "-") for name in TRES) + ":",
)

INSTEAD = 'write read = "text" below [slurm]'

ON_THE_INDEX = (25, 11)
"""The oldest version of pyslurm on the package index."""

_MAJOR = re.compile(r"(\d+)\.(\d+)")


def read_pyslurm(timeout_s: float) -> Reading:
    """Return jobs and nodes from pyslurm, the rest from squeue and scontrol; CannotAskSlurm if it does not fit."""
    check_pyslurm(timeout_s)
    try:
        # -P: the folder of the program is not searched for imports.
        answer = ask(sys.executable, "-P", str(CHILD), timeout_s=timeout_s)
    except CannotAskSlurm as problem:
        # As silent, or as refused, as it was: pyslurm itself gives up after 10 s.
        raise type(problem)(f"pyslurm: {str(problem).partition(': ')[2]}", hint=INSTEAD) from None
    wants = tres_of_text(ask("squeue", *TRES_ARGUMENTS, timeout_s=timeout_s))
    reservations = ask("scontrol", *reservations_text.ARGUMENTS, timeout_s=timeout_s)
    return Reading(
        jobs_of_json(with_tres(answer, wants), source="pyslurm"),
        nodes_of_json(answer, source="pyslurm"),
        reservations_of_text(reservations),
    )


def tres_of_text(text: bytes) -> dict[int, dict[str, str]]:
    """Return what each job asks for per job, node, socket and task, as squeue prints it for TRES_ARGUMENTS."""
    rows = (line.split("|") for line in text.decode(errors="replace").splitlines())
    return {int(row[0]): dict(zip(TRES, row[1:], strict=True)) for row in rows if len(row) == 1 + len(TRES)}


def with_tres(answer: bytes, wants: Mapping[int, Mapping[str, str]]) -> bytes:
    """Return pyslurm's answer with what squeue says that jobs ask for; a job that has ended since asks for nothing."""
    said = json.loads(answer)
    return json.dumps({"jobs": [job | wants.get(job["job_id"], {}) for job in said["jobs"]]}).encode()


def check_pyslurm(timeout_s: float) -> None:
    """Return if pyslurm is installed and of Slurm's own version, by year and month; CannotAskSlurm if not."""
    major, minor = slurm_version(timeout_s)
    try:
        installed = version("pyslurm")
    except PackageNotFoundError:
        hint = f"{_install(major, minor)}, or {INSTEAD}"
        raise CannotAskSlurm("pyslurm: is not installed", hint=hint) from None
    match = _MAJOR.match(installed)
    if not match or (int(match[1]), int(match[2])) != (major, minor):
        told = f"pyslurm: {installed} is not made for Slurm {major}.{minor:02}"
        raise CannotAskSlurm(told, hint=f"{_install(major, minor)}, or {INSTEAD}")


def _install(major: int, minor: int) -> str:
    if (major, minor) < ON_THE_INDEX:
        return f"pyslurm for Slurm {major}.{minor:02} is not on the package index: build it from its source"
    folders = "SLURM_INCLUDE_DIR=/usr/include SLURM_LIB_DIR=/usr/lib"
    return install_hint("pyslurm", f"pyslurm=={major}.{minor}.*", environment=folders)
