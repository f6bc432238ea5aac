"""Reads the request of a job from its script: the lines `#SBATCH` of Slurm and `#PBS` of Torque and OpenPBS."""

import math
import re
import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from datetime import UTC
from typing import NoReturn

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.flexibility import HINT_PREFIX, parse_user_hints
from offpeak.model.request import Chunk, Request
from offpeak.model.units import LONGEST_S
from offpeak.text import printable

MOST_BYTES = 1024 * 1024
MOST = 10**9
"""A larger number of anything is a mistake."""
HINTS = re.compile(r"(?:^|,)OFFPEAK=([^,]*)")


SLURM, PBS = "#SBATCH", "#PBS"

_MEMORY = re.compile(r"(\d+)([kmgt]?)[bw]?", re.IGNORECASE)

_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


@dataclass(frozen=True)
class ScriptRequest:
    """The request in a script; None for options that the script does not set.

    Of a job of whole nodes `nodes` are known and `cores` may be None. `comment` is Slurm's, `variables` are those of
    `#PBS -v`. `system` is the scheduler of the lines, "" if there are none. `request` has the parts, as far as the
    lines tell: memory and GPUs that are not understood are left out, the scheduler judges them.
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
    request: Request | None = None


def parse_script(text: str) -> ScriptRequest:
    """Return the request of the script, by Slurm's lines if there are any. Raises BadInput for unusable requests, and
    for hints that no agent understands.
    """
    if not text.startswith("#!"):
        raise BadInput("the job's script does not begin with #!", hint="its first line is such as #!/bin/bash")
    if lines := _lines(text, SLURM):
        arguments = _parsed(_SLURM, lines, SLURM)
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
        found = ScriptRequest(
            system=SLURM,
            cores=cores,
            nodes=nodes,
            limit_s=None if arguments.time is None else parse_limit_s(arguments.time),
            project=arguments.account or "",
            features=tuple(filter(None, re.split("[&,]", arguments.constraint or ""))),
            comment=arguments.comment or "",
            name=arguments.job_name or "",
            request=_slurm_request(arguments, cores, nodes),
        )
        hints = found.comment
    elif lines := _lines(text, PBS):
        found = _of_pbs(_parsed(_PBS, lines, PBS))
        values = (hint for value in HINTS.findall(found.variables) for hint in re.split(r"[;\s]+", value))
        hints = " ".join(f"{HINT_PREFIX}{hint.removeprefix(HINT_PREFIX)}" for hint in values)
    else:
        return ScriptRequest()
    if errors := parse_user_hints(hints, UTC).errors:
        raise BadInput("; ".join(errors), hint="correct it in the job's script")
    return found


def parse_limit_s(text: str) -> int:
    """Return a limit as Slurm and PBS write it [s]: 30, 30:00, 12:00:00, 1-12, 1-12:30:00. Raises BadInput."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts) or (dash and not days.isdecimal()) or len(parts) > 3:
        raise BadInput(f"{text!r} is not a time limit", hint="write it like 30, 12:00:00 or 1-12:00:00")
    # A single number is minutes, two are minutes and seconds; behind days they begin with hours.
    units_s = (HOUR_S, MINUTE_S, 1) if dash or len(parts) == 3 else (MINUTE_S, 1)
    numbers = zip((days or "0", *parts), (DAY_S, *units_s), strict=False)
    return _bounded_s(sum(_bounded(number, text) * unit_s for number, unit_s in numbers), text)


def _bounded_s(limit_s: int, text: str) -> int:
    if limit_s > LONGEST_S:
        raise BadInput(f"{text!r} is more than 100 years", hint="check the time limit")
    return limit_s


def _bounded(number: str, text: str) -> int:
    """Return a number of decimal digits. Raises BadInput for one that nothing has."""
    if len(number) > len(str(MOST)) or int(number) > MOST:
        raise BadInput(f"{printable(text, enough=40)}: is more than {MOST:,}", hint="correct it in the job's script")
    return int(number)


class _Options(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


def _options(flags: str) -> _Options:
    options = _Options(add_help=False, allow_abbrev=False)
    for flag in flags.split():
        options.add_argument(*flag.split("/"))
    return options


_SLURM = _options(
    "-N/--nodes -n/--ntasks -c/--cpus-per-task --ntasks-per-node -t/--time -A/--account -C/--constraint -a/--array "
    "-J/--job-name --comment -p/--partition --mem --mem-per-cpu -G/--gpus --gpus-per-node --gpus-per-task --gres"
)


_PBS = _options("-A -J -t -v -N -q")
_SLURM.add_argument("--exclusive", nargs="?", const="node")
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


def _slurm_request(arguments: Namespace, cores: int | None, nodes: int | None) -> Request:
    """Return the parts: one for each node if the script gives their number or counts per node, else for each task."""
    tasks = max((cores or 1) // _number(arguments.cpus_per_task or "1", "--cpus-per-task"), 1)
    by_node, by_node_type = _gpus(arguments.gpus_per_node or _gres_gpus(arguments.gres or ""))
    by_task, by_task_type = _gpus(arguments.gpus_per_task or "")
    by_job, by_job_type = _gpus(arguments.gpus or "")
    memory_mib, cpu_mib = _memory_mib(arguments.mem or ""), _memory_mib(arguments.mem_per_cpu or "")
    apart = nodes is not None or by_node > 0 or memory_mib > 0
    copies = nodes or (1 if apart else max(tasks, by_job))
    chunk_cores = -(-(cores or 1) // copies)
    chunk = Chunk(
        copies,
        cores=chunk_cores,
        memory_mib=memory_mib or cpu_mib * chunk_cores,
        gpus=by_node or -(-by_task * tasks // copies) or -(-by_job // copies),
        gpu_type=by_node_type or by_task_type or by_job_type,
    )
    partitions = tuple(filter(None, (arguments.partition or "").split(",")))
    return Request(partitions, (chunk,), apart=apart, whole_nodes=cores is None or arguments.exclusive == "node")


def _gres_gpus(text: str) -> str:
    """Return the GPUs of `gpu:a100:2,nvme:1` as `a100:2`."""
    names = (each.removeprefix("gres/").partition(":") for each in text.split(","))
    return next((amount or "1" for name, _, amount in names if name == "gpu"), "")


def _gpus(text: str) -> tuple[int, str]:
    """Return the number of GPUs and their type, "" for any, of `2`, `a100:2` or `a100`."""
    kind, _, number = text.rpartition(":")
    return (_bounded(number or "0", text), kind) if not text or number.isdecimal() else (1, text)


def _memory_mib(text: str) -> int:
    """Return `16G` or `4gb` as MiB, 0 for text that is no amount. A bare number is MiB, as Slurm takes it."""
    match = _MEMORY.fullmatch(text)
    return 0 if match is None else math.ceil(_bounded(match[1], text) * _MIB[match[2].lower()])


def _of_pbs(arguments: Namespace) -> ScriptRequest:
    if arguments.J or arguments.t:
        raise BadInput("a job array is many jobs, and sites are chosen for one", hint="submit its tasks one by one")
    resources = dict(
        part.partition("=")[::2] for each in arguments.l for part in each.split(",") if not part.startswith("place")
    )
    walltime = resources.get("walltime")
    chunks = resources.get("select") or resources.get("nodes")
    if chunks is None:
        memory_mib = _memory_mib(resources.get("mem", ""))
        parts: tuple[Chunk, ...] = (Chunk(1, _number(resources.get("ncpus", "1"), "ncpus"), memory_mib),)
    else:
        parts = tuple(map(_chunk, chunks.split("+")))
    limit_s = None if walltime is None else _walltime_s(walltime)
    places = [each.removeprefix("place=") for each in arguments.l if each.startswith("place=")]
    request = Request(
        (arguments.q,) if arguments.q else (),
        parts,
        apart="select" not in resources or any("scatter" in place for place in places),
        whole_nodes=any("excl" in place for place in places),
    )
    return ScriptRequest(
        PBS,
        request.cores,
        None,
        limit_s,
        arguments.A or "",
        variables=arguments.v or "",
        name=arguments.N or "",
        request=request,
    )


def _walltime_s(text: str) -> int:
    """Return a limit; a single number is seconds to PBS."""
    return _bounded_s(_bounded(text, text), text) if text.isdecimal() else parse_limit_s(text)


def _chunk(text: str) -> Chunk:
    """Return the part of `2:ncpus=8:mem=4gb:ngpus=1` or `2:ppn=8`."""
    count, *resources = text.split(":")
    named = dict(part.partition("=")[::2] for part in resources)
    cores, gpus = named.get("ncpus", named.get("ppn", "1")), named.get("ngpus", named.get("gpus", ""))
    return Chunk(
        _number(count, "-l"),
        cores=_number(cores, "-l"),
        memory_mib=_memory_mib(named.get("mem", "")),
        gpus=_bounded(gpus, text) if gpus.isdecimal() else 0,
    )


def _number(text: str, option: str) -> int:
    if not text.isdecimal() or not (number := _bounded(text, f"{option} {text}")):
        raise BadInput(f"{option} {text}: is not a number of one or more", hint="correct it in the job's script")
    return number
