"""The jobs for which sites are chosen: the columns of a scheduling cycle, the request of one job, and its script.

Columns and request hold the preferences of the owner too. Of a script the lines `#SBATCH` of Slurm and `#PBS` of Torque
and OpenPBS are read.
"""

import math
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.model.request import Chunk, Request
from offpeak.model.snapshot import NEVER
from offpeak.text import did_you_mean
from plugin.federation.sites import LOCAL, UNKNOWN, Grid


class Goal(IntEnum):
    """The figure that a job's owner wants to minimise; UNSPECIFIED leaves it to the policy."""

    UNSPECIFIED = -1
    TIME = 0
    COST = 1
    CO2 = 2
    ENERGY = 3


@dataclass(frozen=True, eq=False)
class GridJobs:
    """n jobs in the order of their submission.

    `cores` is the request: in a grid whose sites all have one core per unit, these are units of any kind, such as
    nodes. `estimate_s` is the user's run time at the site `home`. `project` and `application` are numbers of the
    grid, UNKNOWN for others. `data_mb` moves with the job from the site `data_at`. `latest_end_s` [Unix s] is the
    green SLA's latest finish, NEVER without one. `features` are masks of the grid, `goal` is a `Goal`. `power_factor`
    is the job's draw as a multiple of the site's draw per unit.
    """

    job_id: Int64
    cores: Int64
    estimate_s: Int64
    submit_s: Int64
    home: Int64
    user: Int64
    project: Int64
    application: Int64
    data_mb: Float64
    data_at: Int64
    latest_end_s: Int64
    features: NDArray[np.uint64]
    goal: NDArray[np.int8]
    power_factor: Float64

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | Int64) -> "GridJobs":
        """Return the jobs that the mask or the indices select."""
        return GridJobs(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


UNLESS_GIVEN = {
    "submit_s": 0,
    "home": 0,
    "user": UNKNOWN,
    "project": UNKNOWN,
    "application": UNKNOWN,
    "data_mb": 0.0,
    "latest_end_s": NEVER,
    "features": 0,
    "goal": Goal.UNSPECIFIED,
    "power_factor": 1.0,
}
TYPES = {"data_mb": np.float64, "power_factor": np.float64, "features": np.uint64, "goal": np.int8}


def grid_jobs(*, job_id: object, cores: object, estimate_s: object, **columns: object) -> GridJobs:
    """Return jobs from columns, each an array, a list or one value, else defaults; data are at home by default."""
    given = UNLESS_GIVEN | columns | {"job_id": job_id, "cores": cores, "estimate_s": estimate_s}
    given.setdefault("data_at", given["home"])
    count = len(np.atleast_1d(np.asarray(job_id)))
    return GridJobs(
        **{
            name: np.broadcast_to(np.asarray(column, TYPES.get(name, np.int64)), count).copy()
            for name, column in given.items()
        }
    )


GOALS = {"co2": Goal.CO2, "cost": Goal.COST, "energy": Goal.ENERGY, "time": Goal.TIME}
BY_WEIGHTS = ""
"""The goal of a job whose owner names none where the weights of the broker decide."""


@dataclass(frozen=True)
class PlacementRequest:
    """A job of `cores` cores with a time limit of `limit_s` at home.

    `goal` is a key of GOALS or BY_WEIGHTS, `latest_end_s` [Unix s] the green SLA's latest finish. `features` are
    required features, `application` is a name for which sites may have a rank, "" if unknown. `request` is what the
    job needs of nodes, None if only its cores are known; its partitions are those of sites whose jobs are submitted
    by `submit`. `data_mb` moves with the job from the site `data_at`, "" for its home.
    """

    cores: int
    limit_s: int
    goal: str = "co2"
    latest_end_s: int | None = None
    project: str = ""
    features: tuple[str, ...] = ()
    application: str = ""
    request: Request | None = None
    submit: str = ""
    data_mb: float = 0.0
    data_at: str = ""


def parse_goal(text: str) -> str:
    """Return the goal of that name. Raises BadInput if there is none."""
    if text not in GOALS:
        raise BadInput(f"--goal {text}: is no goal", hint=did_you_mean(text, GOALS))
    return text


def find_home(grid: Grid) -> int:
    """Return the site at which estimates hold and which is first among equals: where the broker is, else the first."""
    local = (at for at, site in enumerate(grid.sites) if site.reach is not None and site.reach.way == LOCAL)
    return next(local, 0)


def policy_for(request: PlacementRequest) -> str:
    """Return the name of the policy that chooses: by the latest finish, by time alone, else by goal and queues."""
    if request.latest_end_s is not None:
        return "eca-sla"
    return "fastest" if request.goal == "time" else "eca-queue"


def request_columns(requests: Sequence[PlacementRequest], grid: Grid, now_s: int) -> GridJobs:
    """Return a cycle's jobs in order, from 1. Raises BadInput for features, applications or data that no site has."""
    home = find_home(grid)
    projects = {name: number for number, name in enumerate(grid.projects)}
    return grid_jobs(
        job_id=range(1, len(requests) + 1),
        cores=[each.cores for each in requests],
        estimate_s=[each.limit_s for each in requests],
        submit_s=now_s,
        home=home,
        project=[projects.get(each.project, UNKNOWN) for each in requests],
        latest_end_s=[NEVER if each.latest_end_s is None else each.latest_end_s for each in requests],
        features=[grid.feature_mask(each.features) for each in requests],
        goal=[GOALS.get(each.goal, Goal.UNSPECIFIED) for each in requests],
        application=[grid.application_number(each.application) if each.application else UNKNOWN for each in requests],
        data_mb=[each.data_mb for each in requests],
        data_at=[grid.index(each.data_at) if each.data_at else home for each in requests],
    )


MOST_BYTES = 1024 * 1024
SLURM, PBS = "#SBATCH", "#PBS"


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
    """Return the request of the script, by Slurm's lines if there are any. Raises BadInput for unusable requests."""
    if not text.startswith("#!"):
        raise BadInput("the job's script does not begin with #!", hint="its first line is such as #!/bin/bash")
    if lines := _lines(text, SLURM):
        return _of_slurm(_parsed(_SLURM, lines, SLURM))
    if lines := _lines(text, PBS):
        return _of_pbs(_parsed(_PBS, lines, PBS))
    return ScriptRequest()


def parse_limit_s(text: str) -> int:
    """Return a limit as Slurm and PBS write it [s]: 30, 30:00, 12:00:00, 1-12, 1-12:30:00. Raises BadInput."""
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


def _options(flags: str) -> _Options:
    options = _Options(add_help=False, allow_abbrev=False)
    for flag in flags.split():
        options.add_argument(*flag.split("/"))
    return options


_SLURM = _options(
    "-N/--nodes -n/--ntasks -c/--cpus-per-task --ntasks-per-node -t/--time -A/--account -C/--constraint -a/--array "
    "-J/--job-name --comment -p/--partition --mem --mem-per-cpu -G/--gpus --gpus-per-node --gpus-per-task --gres"
)
_SLURM.add_argument("--exclusive", nargs="?", const="node")
_PBS = _options("-A -J -t -v -N -q")
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
        request=_slurm_request(arguments, cores, nodes),
    )


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
    return (int(number or 0), kind) if not text or number.isdecimal() else (1, text)


_MEMORY = re.compile(r"(\d+)([kmgt]?)[bw]?", re.IGNORECASE)
_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def _memory_mib(text: str) -> int:
    """Return `16G` or `4gb` as MiB, 0 for text that is no amount. A bare number is MiB, as Slurm takes it."""
    match = _MEMORY.fullmatch(text)
    return 0 if match is None else math.ceil(int(match[1]) * _MIB[match[2].lower()])


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
    # A single number is seconds to PBS.
    limit_s = None if walltime is None else int(walltime) if walltime.isdecimal() else parse_limit_s(walltime)
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


def _chunk(text: str) -> Chunk:
    """Return the part of `2:ncpus=8:mem=4gb:ngpus=1` or `2:ppn=8`."""
    count, *resources = text.split(":")
    named = dict(part.partition("=")[::2] for part in resources)
    cores, gpus = named.get("ncpus", named.get("ppn", "1")), named.get("ngpus", named.get("gpus", ""))
    return Chunk(
        _number(count, "-l"),
        cores=_number(cores, "-l"),
        memory_mib=_memory_mib(named.get("mem", "")),
        gpus=int(gpus) if gpus.isdecimal() else 0,
    )


def _number(text: str, option: str) -> int:
    if not text.isdecimal() or not int(text):
        raise BadInput(f"{option} {text}: is no number of one or more", hint="correct it in the job's script")
    return int(text)
