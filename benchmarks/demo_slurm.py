"""`make demo-slurm`: offpeak on a real Slurm of this machine, whose nodes sleep, wake and run jobs, in two minutes."""

import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.local_slurm.agent import RunningAgent, Tables, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import NEEDED, JobTraceEntry, PoweredCluster, powered_cluster
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.node import OFF_W, PowerEvent
from benchmarks.local_slurm.plan import PROGRAMS, PoweredPlan
from benchmarks.local_slurm.processes import missing_files
from offpeak.display import percent_text, watts_text
from offpeak.model.cluster import NodeType
from offpeak.model.constants import HOUR_S

NODES = 10
JOBS = 40
BURSTS_S = (2.0, 14.0, 48.0, 66.0)
"""Seconds after the start at which bursts of jobs begin; between them nodes are idle."""

ON_PEAK, OFF_PEAK = 210.0, 35.0
"""Prices [EUR/MWh]."""
PRICE_FALLS_AFTER_S = 45.0
DAY_MIN = 24 * 60

CALL = ("shed", "380W", "--for", "35s")
CALL_AT_S = 92.0
"""When the grid calls: only sleeping nodes and a cap on those of the solver get the draw so low."""

DURATION_S = 135.0
POLL_S, SUMMARY_S = 0.5, 10.0
TRIES = 10
THIN, FAT, GPU = NodeType(4, 1000), NodeType(4, 4000), NodeType(4, 2000, (("a100", 2),))
NODE_TYPES = (*(THIN,) * 5, *(FAT,) * 2, *(GPU,) * 3)
PARTITIONS = """\
PartitionName=batch Nodes=node[1-7] Default=YES MaxTime=1-0 State=UP OverSubscribe=EXCLUSIVE
PartitionName=gpu Nodes=node[8-10] MaxTime=1-0 State=UP OverSubscribe=NO"""
PLAN = PoweredPlan(
    nodes=NODES,
    boot_s=2.0,
    shutdown_s=1.0,
    partitions=PARTITIONS,
    settings="SelectTypeParameters=CR_CPU_Memory",
    node_types=NODE_TYPES,
)

NODE_LINES = {
    "soft_off": "[blue]{node} is shut down: no job needs it",
    "off": "[blue]{node} sleeps: {off_w:g} W",
    "booting": "[yellow]{node} is woken",
    "up": "[green]{node} has booted",
}
LOST_JOB = "[bold red]{node} lost its power with a job on it: {jobs}"


@dataclass(frozen=True)
class JobClass:
    """Jobs of one name, which all draw the same power."""

    name: str
    watts: float


BATCH_CLASSES = (JobClass("render", 200.0), JobClass("archive", 130.0))
GPU_CLASS = JobClass("train", 180.0)
SOLVER = JobClass("solver", 200.0)
JOB_CLASSES = (*BATCH_CLASSES, GPU_CLASS, SOLVER)
MEMORY_MIB, LARGE_MEMORY_MIB = (300, 400, 500), 3000
LARGE_MEMORY_SHARE, GPU_SHARE = 0.15, 0.3
ARRAY_TASKS, ARRAY_LIMIT = 6, 3
ARRAY_AT_S = 15.0


@dataclass(frozen=True)
class JobArrival:
    """A job or an array: when it is submitted, and for how long it, or each of its tasks, runs on how many nodes.

    `memory_mib` and `gpus` are requested per node.
    """

    submit_s: float
    job_class: JobClass
    seconds: int
    nodes: int = 1
    memory_mib: int = MEMORY_MIB[0]
    gpus: int = 0
    tasks: int = 1
    comment: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of sbatch for its request."""
        options = [f"--mem={self.memory_mib}M"]
        if self.gpus:
            options += ["--partition=gpu", f"--gres=gpu:{self.gpus}"]
        if self.tasks > 1:
            options += [f"--array=1-{self.tasks}%{ARRAY_LIMIT}"]
        if self.comment:
            options += [f"--comment={self.comment}"]
        return tuple(options)


def job_arrivals(seed: int = 1) -> tuple[JobArrival, ...]:
    """Return the jobs in the order of their submission; the same for the same seed."""
    chance = random.Random(seed)
    bursts = sorted(chance.choices(BURSTS_S, weights=(5, 2, 3, 2), k=JOBS - ARRAY_TASKS - 1))
    array = JobArrival(ARRAY_AT_S, BATCH_CLASSES[1], seconds=4, memory_mib=MEMORY_MIB[-1], tasks=ARRAY_TASKS)
    arrivals = [_drawn_arrival(chance, burst_s + 0.2 * place) for place, burst_s in enumerate(bursts)]
    solver = JobArrival(60.0, SOLVER, seconds=70, nodes=2, comment="offpeak:cap")
    return tuple(sorted([*arrivals, array, solver], key=lambda arrival: arrival.submit_s))


def _drawn_arrival(chance: random.Random, submit_s: float) -> JobArrival:
    seconds = chance.randint(3, 8)
    if chance.random() < GPU_SHARE:
        gpus = chance.choice((1, 2))
        return JobArrival(submit_s, GPU_CLASS, seconds, memory_mib=800 * gpus, gpus=gpus)
    large = chance.random() < LARGE_MEMORY_SHARE
    memory_mib = LARGE_MEMORY_MIB if large else chance.choice(MEMORY_MIB)
    nodes = 1 if large else chance.choice((1, 1, 1, 2))
    return JobArrival(submit_s, chance.choice(BATCH_CLASSES), seconds, nodes, memory_mib)


def price_fall_s(now_unix_s: float) -> float:
    """Return the full minute [Unix s] at which the price falls, at least PRICE_FALLS_AFTER_S from now."""
    return -((-now_unix_s - PRICE_FALLS_AFTER_S) // 60) * 60


def write_prices(file: Path, fall_unix_s: float) -> None:
    """Write a price for every minute of two days: on-peak in the hour until that time, off-peak in all others.

    So the price falls by the mean of its day wherever midnight is.
    """
    fall_min = round(fall_unix_s / 60)
    minutes = range(fall_min - DAY_MIN, fall_min + DAY_MIN)
    rows = (
        f"{_utc(60 * minute)},{ON_PEAK if fall_min - 60 <= minute < fall_min else OFF_PEAK:g}" for minute in minutes
    )
    file.write_text("\n".join(["utc,price", *rows, ""]))


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%MZ")


def main() -> int:
    """Run the demo; return 0 if no job was lost, 1 if one was or the agent ended, 2 if something is missing."""
    console = Console(highlight=False, soft_wrap=True)
    if missing := _missing():
        console.print(f"no demo without {missing}", markup=False)
        return 2
    begin_s = time.time()
    fall_s = price_fall_s(begin_s)
    with _cluster(console) as cluster:
        with _agent(cluster, fall_s) as running:
            _play(cluster, console, running, fall_s)
            if not running.runs:
                console.print(f"the agent has ended: {running.log.read_text().strip()}", markup=False)
                return 1
            _sum_up(cluster, console, time.time() - begin_s)
        return 1 if cluster.log.violations else 0


def _missing() -> str:
    """Return the missing requirements of the demo and how to install them; empty if nothing is missing."""
    if programs := missing_files(NEEDED):
        return f"{', '.join(programs)}: as root on Debian, .ci/prepare-peers installs them"
    if scripts := [PROGRAMS[name] for name in PROGRAMS if name not in PLAN.programs]:
        return f"deploy/slurm/{', '.join(scripts)}: run `make demo-slurm` in a clone of the repository"
    return ""


@contextmanager
def _cluster(console: Console) -> Iterator[PoweredCluster]:
    """Start everything but the agent, and print how to look at it."""
    with ExitStack() as stack:
        cluster = stack.enter_context(powered_cluster(PLAN))
        console.print(f"Slurm runs on {NODES} nodes of this machine, each with a BMC and on a metered outlet:")
        console.print("5 thin and 2 with more memory in partition batch, 3 with two GPUs in partition gpu.")
        console.print("To look at it from another terminal:")
        for name, file in (("SLURM_CONF", cluster.slurm.conf), ("OFFPEAK_CONFIG", cluster.folder / "offpeak.toml")):
            console.print(f"  export {name}={file}")
        console.print("  sinfo; squeue --start; offpeak nodes; offpeak ledger actions\n")
        yield cluster


@contextmanager
def _agent(cluster: PoweredCluster, fall_unix_s: float) -> Iterator[RunningAgent]:
    """Run the agent with prices that fall at that time."""
    prices = cluster.folder / "prices_eur_per_mwh.csv"
    write_prices(prices, fall_unix_s)
    with metered_racks(cluster) as racks:
        classes = [f"{job_class.name}={job_class.watts:g}W" for job_class in JOB_CLASSES]
        changes: Tables = {
            "prices": {"file": str(prices), "peak_rule": "day-mean"},
            "power": {"classes": classes},
            "agent": {"capacity": "timeout:6s", "longest_delay": "10min"},
        }
        settings = write_site(cluster, changes, racks=racks)
        with agent(cluster, settings) as running:
            yield running


def _play(cluster: PoweredCluster, console: Console, running: RunningAgent, fall_unix_s: float) -> None:
    """Submit the jobs at their times and print what happens, until time is up or the agent ends."""
    begin_s, summary_s, is_called = time.time(), 0.0, False
    story, arrivals, fall_s = Story(cluster, begin_s), list(job_arrivals()), fall_unix_s - begin_s
    console.print(f"    0 s  electricity costs {ON_PEAK:g} EUR/MWh, from {fall_s:.0f} s on {OFF_PEAK:g} EUR/MWh")
    while (now_s := time.time() - begin_s) < DURATION_S and running.runs:
        while arrivals and arrivals[0].submit_s <= now_s:
            job = arrivals.pop(0)
            cluster.jobs.submit(
                *job.options,
                name=job.job_class.name,
                seconds=job.seconds,
                nodes=job.nodes,
                watts=job.job_class.watts,
            )
        for line in story.news():
            console.print(line)
        if now_s >= CALL_AT_S and not is_called:
            is_called = True
            console.print(f"{now_s:5.0f} s  [bold]$ offpeak {' '.join(CALL)}")
            console.print(f"        {_answer(cluster, CALL).strip()}", markup=False)
        if now_s >= summary_s:
            price = ON_PEAK if now_s < fall_s else OFF_PEAK
            console.print(f"[dim]{now_s:5.0f} s  {price:g} EUR/MWh; {story.summary()}")
            summary_s += SUMMARY_S
        time.sleep(POLL_S)


def _sum_up(cluster: PoweredCluster, console: Console, seconds: float) -> None:
    """Print the energy that the outlets delivered, the jobs, and the agent's status and ledger."""
    console.print(f"\n{energy_drawn(cluster, seconds)}")
    started, lost = len(cluster.jobs.started()), len(cluster.log.violations)
    console.print(f"{started} jobs were started, {lost} times power was taken from a job.")
    console.print(
        "The account below has the rests of nodes up to the last full minute, so its saving is small. What the order"
    )
    console.print("of the queue saved comes by replays, and is booked after some minutes.\n")
    used = ("ledger", "energy", "--by", "user", "--starttime", "now-5minutes")
    others = {arguments: _answer(cluster, arguments) for arguments in (("shed",), used)}
    for arguments, answer in (answers_of_one_moment(cluster) | others).items():
        console.print(f"$ offpeak {' '.join(arguments)}\n{answer}", markup=False)


def answers_of_one_moment(cluster: PoweredCluster) -> dict[tuple[str, ...], str]:
    """Return status and savings as of one moment: the bill grows with each reading, and the saving with each round."""
    answers: dict[tuple[str, ...], str] = {}
    for _ in range(TRIES):
        answers = {arguments: _answer(cluster, arguments) for arguments in (("status",), ("ledger", "savings"))}
        if len({saved_in(answer) for answer in answers.values()}) == 1:
            break
    return answers


def _answer(cluster: PoweredCluster, arguments: Sequence[str]) -> str:
    answer = run_offpeak(cluster, *arguments)
    return answer.stdout + answer.stderr


def saved_in(text: str) -> str:
    """Return what was saved, as status and ledger print it; empty if they do not."""
    found = re.search(r"^saved(?: today|:)\s+(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


@dataclass
class Story:
    """The events on a powered cluster as lines, each returned once. `begin_s` is the Unix time of second 0."""

    cluster: PoweredCluster
    begin_s: float
    _events: int = 0
    _traced: int = 0
    _order: list[str] = field(default_factory=list)
    _delayed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events = len(self.cluster.log.events())

    def news(self) -> list[str]:
        """Return the events since the last call as lines, in order of time."""
        lines = sorted([*self._of_nodes(), *self._of_jobs()])
        now_s = time.time()
        lines += [(now_s, line) for line in self._of_queue()]
        return [f"{at_s - self.begin_s:5.0f} s  {line}" for at_s, line in lines]

    def summary(self) -> str:
        """Return the present state in one line."""
        nodes = self.cluster.nodes.values()
        up, watts = sum(node.watts > OFF_W for node in nodes), sum(node.watts for node in nodes)
        states = list(self.cluster.jobs.states().values())
        waiting, done = states.count("PENDING"), states.count("COMPLETED")
        jobs = f"{waiting} jobs wait, {len(states) - waiting - done} run or start, {done} done"
        return f"{up} of {len(nodes)} nodes on, {watts_text(watts)}; {jobs}"

    def _of_nodes(self) -> Iterator[tuple[float, str]]:
        events = self.cluster.log.events()
        for event in events[self._events :]:
            if line := _node_line(event):
                yield event.at_s, line
        self._events = len(events)

    def _of_jobs(self) -> Iterator[tuple[float, str]]:
        trace = self.cluster.jobs.trace()
        new = len(trace) > self._traced
        names = {job: name for _, job, name, *_ in self.cluster.jobs.ask("%A|%j")} if new else {}
        for entry in trace[self._traced :]:
            yield entry.at_s, _job_line(entry, names.get(entry.job, ""))
        self._traced = len(trace)

    def _of_queue(self) -> Iterator[str]:
        # The waiting tasks of an array are one record, with the number of the array.
        rows = [row[1:] for row in self.cluster.jobs.ask("%A|%T|%Q|%S|%r")]
        waiting = {(-int(priority), int(job)) for job, state, priority, *_ in rows if state == "PENDING"}
        order = [str(job) for _, job in sorted(waiting)]
        both = set(order) & set(self._order)
        before, after = ([job for job in jobs if job in both] for jobs in (self._order, order))
        if before != after:
            yield f"[magenta]the queue is in another order: {_first(after)}; it was {_first(before)}"
        self._order = order
        delayed = {job: start for job, state, _, start, why in rows if state == "PENDING" and why == "BeginTime"}
        for job in delayed.keys() - self._delayed.keys():
            yield f"[magenta]job {job} waits for a cheaper hour, until {delayed[job].partition('T')[2]} at the latest"
        self._delayed = delayed


def energy_drawn(cluster: PoweredCluster, seconds: float) -> str:
    """Return the energy of the nodes, and how long they slept."""
    drawn_j = sum(node.joules for node in cluster.nodes.values())
    asleep_s = sum(node.asleep_s for node in cluster.nodes.values())
    share = percent_text(100 * asleep_s / (seconds * len(cluster.nodes)))
    return f"The outlets delivered {drawn_j / HOUR_S:,.1f} Wh; a node slept {share} of the time."


def _node_line(event: PowerEvent) -> str:
    values = {"node": event.node, "off_w": OFF_W, "jobs": ", ".join(event.jobs)}
    line = LOST_JOB if event.jobs and event.what in ("off", "hard_off") else NODE_LINES.get(event.what, "")
    return line.format_map(values)


def _job_line(traced: JobTraceEntry, name: str) -> str:
    verb = "starts on" if traced.what == "start" else "is done on"
    return f"job {traced.job} ({name}) {verb} {traced.nodes}"


def _first(jobs: list[str]) -> str:
    return ", ".join(jobs[:6]) + (", ..." if len(jobs) > 6 else "")


if __name__ == "__main__":
    sys.exit(main())
