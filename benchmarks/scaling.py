"""A study over two Dask workers: its overhead over local processes, and what ten killed workers cost.

`python -m benchmarks.scaling`: a quarter of an hour, so it is no part of `make bench`. `python -m benchmarks.scaling
rest` measures only the servers at rest, as Dask sets them and as offpeak does.
"""

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from distributed import Client
from pydantic import TypeAdapter

from benchmarks.bars import Measured, machine
from benchmarks.local_slurm.processes import listens, reserved_ports, running, wait_until
from offpeak.executor import QUIET_DASK, DaskWorkers, Executor, LocalProcesses
from offpeak_studies.dynamic_pricing.plan import mira_subjects, paper_subjects, planned, subjects_of
from offpeak_studies.dynamic_pricing.run import PricingResult, run
from offpeak_studies.harness import JOURNAL, Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from offpeak_studies.logs import find_logs

EXPERIMENTS, WORKERS, KILLS = 580, 2, 10
SETTLE_S, REST_S = 5.0, 30.0
REPLAYS = 10
BAR_PCT = 10.0


@dataclass(frozen=True)
class DaskServers:
    """A scheduler and its workers on this machine: `on` is what `--on` takes."""

    on: str
    scheduler: psutil.Process
    nannies: tuple[psutil.Process, ...]

    def stop_scheduler(self) -> None:
        """Kill the scheduler."""
        self.scheduler.kill()

    def kill_worker(self, number: int) -> None:
        """Kill a worker; its nanny starts another one. Does nothing while none runs there."""
        with suppress(psutil.NoSuchProcess):
            for process in self.nannies[number].children(recursive=True):
                process.send_signal(signal.SIGKILL)


@contextmanager
def dask_servers(workers: int, quiet: Mapping[str, str] = QUIET_DASK) -> Iterator[DaskServers]:
    """Run a scheduler and workers of one thread each, until the block ends."""
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="offpeak-dask-")))
        (port,) = servers.enter_context(reserved_ports(1))
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
            **quiet,
        }
        address, log = f"127.0.0.1:{port}", folder / "dask.log"

        def start(server: str, *arguments: str) -> psutil.Process:
            command = (sys.executable, "-m", f"distributed.cli.dask_{server}", *arguments, "--no-dashboard")
            started = running(*command, log=log, ready=lambda: listens(port), environment=environment)
            return psutil.Process(servers.enter_context(started).pid)

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        nannies = tuple(start("worker", f"tcp://{address}", "--nthreads", "1") for _ in range(workers))
        with Client(f"tcp://{address}", set_as_default=False) as client:  # type: ignore[no-untyped-call]
            # A nanny whose first worker is killed before it has started itself ends, and nobody starts the next worker.
            started = ["running"] * workers
            wait_until(lambda: list(client.run(status_of, nanny=True).values()) == started, what="workers", log=log)
        yield DaskServers(f"dask://{address}", scheduler, nannies)


def status_of(dask_worker: Any) -> str:
    """Return the status of a nanny; Dask passes the nanny by this name."""
    return str(dask_worker.status.name)


def has_worker(nanny: psutil.Process) -> bool:
    """Return whether the nanny has started its worker."""
    return bool(nanny.children(recursive=True))


@dataclass(frozen=True)
class StudyRun:
    """The journal of a finished study, its wall-clock time, and the processor time of all processes."""

    journal: bytes
    wall_s: float
    cpu_s: float


def study_on(
    executor: Executor,
    out: Path,
    servers: DaskServers | None = None,
    *,
    count: int = EXPERIMENTS,
    progress: Progress = lambda _done, _total: None,
) -> StudyRun:
    """Run the first experiments of the study of dynamic pricing on the generated log."""
    logs, _ = find_logs(None)
    first = planned(subjects_of(logs), paper_subjects(logs), mira_subjects(logs), Replays(REPLAYS, 1))[:count]
    keys = {
        experiment: result_key("offpeak_studies.dynamic_pricing.run", experiment, logs[0].digest)
        for experiment in first
    }
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(PricingResult))
    begin_s, begin_cpu_s = time.perf_counter(), cpu_s(servers)
    results_of(runner, keys, StudyOrder(None, out, REPLAYS, 1, executor), progress)
    return StudyRun((out / JOURNAL).read_bytes(), time.perf_counter() - begin_s, cpu_s(servers) - begin_cpu_s)


def cpu_s(servers: DaskServers | None) -> float:
    """Return the processor time of this process, of its children that have ended, and of the servers' processes."""
    own = sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    roots = (servers.scheduler, *servers.nannies) if servers else ()
    running = [process for root in roots for process in (root, *root.children(recursive=True))]
    return own + sum(sum(process.cpu_times()[:2]) for process in running)


def scaling_benchmarks() -> Iterator[Measured]:
    """Measure local processes, then Dask, then Dask with workers that are killed."""
    with tempfile.TemporaryDirectory() as name, dask_servers(WORKERS) as servers, DaskWorkers(servers.on) as workers:
        folder = Path(name)
        # Kernels are compiled, and the workers of Dask have loaded the program, as workers that stay have.
        study_on(workers, folder / "warm", servers, count=4 * WORKERS)
        local = study_on(LocalProcesses(WORKERS), folder / "local")
        remote = study_on(workers, folder / "dask", servers)
        times = ((local.wall_s, remote.wall_s, "wall clock"), (local.cpu_s, remote.cpu_s, "processor time"))
        for here_s, there_s, what in times:
            data = f"{EXPERIMENTS} experiments, {here_s:.1f} s and {there_s:.1f} s"
            yield Measured(f"overhead of Dask, {what}", 100 * (there_s / here_s - 1), "%", BAR_PCT, False, data)
        differs = float(remote.journal != local.journal)
        yield Measured("journals that differ by a byte", differs, "runs", 0, False, f"{EXPERIMENTS} experiments")
        yield from kills(servers, workers, folder / "killed", local.journal)


def kills(servers: DaskServers, workers: DaskWorkers, out: Path, expected: bytes) -> Iterator[Measured]:
    """Kill one of the two workers ten times while the study runs."""
    killed = 0

    def kill_sometimes(done: int, total: int) -> None:
        nonlocal killed
        if killed < KILLS and done >= (killed + 1) * total // (KILLS + 2) and has_worker(servers.nannies[killed % 2]):
            servers.kill_worker(killed % 2)
            killed += 1

    survivor = study_on(workers, out, servers, progress=kill_sometimes)
    lost = len(set(expected.splitlines()) - set(survivor.journal.splitlines()))
    doubled = len(survivor.journal.splitlines()) - len(set(survivor.journal.splitlines()))
    data = f"a worker killed {killed} times, {survivor.wall_s:.1f} s"
    yield Measured("results lost, doubled or in another order", lost + doubled, "results", 0, False, data)
    yield Measured("journal with kills differs", float(survivor.journal != expected), "runs", 0, False, data)
    yield Measured("workers killed", float(killed), "kills", KILLS, True, data)


def rest_benchmarks() -> Iterator[Measured]:
    """Measure the processor time of the servers while no task runs."""
    for quiet, who in (({}, "as Dask sets them"), (QUIET_DASK, "as offpeak sets them")):
        with dask_servers(WORKERS, quiet) as servers:
            time.sleep(SETTLE_S)
            begin_s, begin_cpu_s = time.perf_counter(), cpu_s(servers)
            time.sleep(REST_S)
            share = (cpu_s(servers) - begin_cpu_s) / (time.perf_counter() - begin_s)
        data = f"a scheduler and {WORKERS} workers with their nannies, {who}"
        yield Measured("servers of Dask at rest: share of a core", 100 * share, "%", float("inf"), False, data)


if __name__ == "__main__":
    print(machine())
    for measured in rest_benchmarks() if sys.argv[1:] == ["rest"] else scaling_benchmarks():
        verdict = "reached" if measured.reached else "MISSED"
        figure = f"{measured.value:,.1f} {measured.unit}, target {measured.bar:,.0f}"
        print(f"{measured.what}: {figure} {verdict} ({measured.data})", flush=True)
