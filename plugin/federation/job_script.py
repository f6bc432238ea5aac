"""Reads the request of a job from its script: the lines `#SBATCH` of Slurm and `#PBS` of Torque and OpenPBS."""

import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S

MOST_BYTES = 1024 * 1024
SLURM, PBS = "#SBATCH", "#PBS"


@dataclass(frozen=True)
class ScriptRequest:
    """The request in a script; None for options that the script does not set.

    Of a job of whole nodes `nodes` are known and `cores` may be None. `comment` is Slurm's, `variables` are those of
    `#PBS -v`. `system` is the scheduler of the lines, "" if there are none.
    """

    system: str = ""
    cores: int | None = None
    nodes: int | None = None
    limit_s: int | None = None
    project: str = ""
    features: tuple[str, ...] = ()
    comment: str = ""
    variables: str = ""
    name: str = ""


def parse_script(text: str) -> ScriptRequest:
    """Return the request of the script, by Slurm's lines if there are any. Raises BadInput for unusable requests."""
    if not text.startswith("#!"):
        raise BadInput("the job's script does not begin with #!", hint="its first line is such as #!/bin/bash")
    if lines := _lines(text, SLURM):
        return _of_slurm(_parsed(_SLURM, lines, SLURM))
    if lines := _lines(text, PBS):
        return _of_pbs(_parsed(_PBS, lines, PBS))
    return ScriptRequest()


def parse_limit_s(text: str) -> int:
    """Return a time limit as Slurm and PBS write it [s]: 30, 30:00, 12:00:00, 1-12, 1-12:30:00.

    Raises BadInput for others.
    """
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts) or (dash and not days.isdecimal()) or len(parts) > 3:
        raise BadInput(f"{text!r} is no time limit", hint="write it like 30, 12:00:00 or 1-12:00:00")
    # A single number is minutes, two are minutes and seconds; behind days they begin with hours.
    units_s = (HOUR_S, MINUTE_S, 1) if dash or len(parts) == 3 else (MINUTE_S, 1)
    return int(days or 0) * DAY_S + sum(int(part) * unit_s for part, unit_s in zip(parts, units_s, strict=False))


class _Options(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


def _options(flags: Iterable[tuple[str, ...]]) -> _Options:
    options = _Options(add_help=False, allow_abbrev=False)
    for flag in flags:
        options.add_argument(*flag)
    return options


_SLURM = _options(
    (
        ("-N", "--nodes"),
        ("-n", "--ntasks"),
        ("-c", "--cpus-per-task"),
        ("--ntasks-per-node",),
        ("-t", "--time"),
        ("-A", "--account"),
        ("-C", "--constraint"),
        ("-a", "--array"),
        ("-J", "--job-name"),
        ("--comment",),
    )
)
_PBS = _options((("-A",), ("-J",), ("-t",), ("-v",), ("-N",)))
_PBS.add_argument("-l", action="append", default=[])


def _lines(text: str, sign: str) -> list[str]:
    """Return the sign's lines up to the first command, without the sign."""
    found = []
    for line in text.splitlines():
        if line.startswith(sign):
            found.append(line.removeprefix(sign))
        elif line.strip() and not line.startswith("#"):
            break
    return found


def _parsed(options: ArgumentParser, lines: list[str], sign: str) -> Namespace:
    arguments = []
    for line in lines:
        try:
            arguments += shlex.split(line, comments=True)
        except ValueError:
            raise BadInput(f"{sign}{line}: cannot be read", hint="is a quote missing?") from None
    try:
        return options.parse_known_args(arguments)[0]
    except BadInput as problem:
        raise BadInput(f"{sign}: {problem}", hint="the job's script names an option without its value") from None


def _of_slurm(arguments: Namespace) -> ScriptRequest:
    if arguments.array:
        raise BadInput("a job array is many jobs, and sites are chosen for one", hint="submit its tasks one by one")
    nodes = None if arguments.nodes is None else _number(arguments.nodes.rpartition("-")[2], "--nodes")
    per_task = _number(arguments.cpus_per_task or "1", "--cpus-per-task")
    cores = None
    if arguments.ntasks is not None:
        cores = _number(arguments.ntasks, "--ntasks") * per_task
    elif nodes is not None and arguments.ntasks_per_node is not None:
        cores = nodes * _number(arguments.ntasks_per_node, "--ntasks-per-node") * per_task
    elif nodes is None:
        cores = per_task
    return ScriptRequest(
        system=SLURM,
        cores=cores,
        nodes=nodes,
        limit_s=None if arguments.time is None else parse_limit_s(arguments.time),
        project=arguments.account or "",
        features=tuple(filter(None, re.split("[&,]", arguments.constraint or ""))),
        comment=arguments.comment or "",
        name=arguments.job_name or "",
    )


def _of_pbs(arguments: Namespace) -> ScriptRequest:
    if arguments.J or arguments.t:
        raise BadInput("a job array is many jobs, and sites are chosen for one", hint="submit its tasks one by one")
    resources = dict(
        part.partition("=")[::2] for each in arguments.l for part in each.split(",") if not part.startswith("place")
    )
    walltime = resources.get("walltime")
    chunks = resources.get("select") or resources.get("nodes")
    cores = _number(resources.get("ncpus", "1"), "ncpus") if chunks is None else sum(map(_chunk, chunks.split("+")))
    # A single number is seconds to PBS.
    limit_s = None if walltime is None else int(walltime) if walltime.isdecimal() else parse_limit_s(walltime)
    return ScriptRequest(
        PBS, cores, None, limit_s, arguments.A or "", variables=arguments.v or "", name=arguments.N or ""
    )


def _chunk(text: str) -> int:
    """Return the cores of `2:ncpus=8:mem=4gb` or `2:ppn=8`."""
    count, *resources = text.split(":")
    per = next((part.partition("=")[2] for part in resources if part.startswith(("ncpus=", "ppn="))), "1")
    return _number(count, "-l") * _number(per, "-l")


def _number(text: str, option: str) -> int:
    if not text.isdecimal() or not int(text):
        raise BadInput(f"{option} {text}: is no number of one or more", hint="correct it in the job's script")
    return int(text)
