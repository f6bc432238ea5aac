"""A study over two Dask workers: its overhead over local processes, and what ten killed workers cost.

`python -m benchmarks.scaling`: half an hour, so it is no part of `make bench`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.local_slurm.processes import listens, reserved_ports, running, wait_until


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
def dask_servers(workers: int) -> Iterator[DaskServers]:
    """Run a scheduler and workers of one thread each, until the block ends."""
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="offpeak-dask-")))
        (port,) = servers.enter_context(reserved_ports(1))
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
        }
        address, log = f"127.0.0.1:{port}", folder / "dask.log"

        def start(server: str, *arguments: str) -> psutil.Process:
            command = (sys.executable, "-m", f"distributed.cli.dask_{server}", *arguments, "--no-dashboard")
            started = running(*command, log=log, ready=lambda: listens(port), environment=environment)
            return psutil.Process(servers.enter_context(started).pid)

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        nannies = tuple(start("worker", f"tcp://{address}", "--nthreads", "1") for _ in range(workers))
        wait_until(lambda: all(map(has_worker, nannies)), what="the workers of Dask", log=log)
        yield DaskServers(f"dask://{address}", scheduler, nannies)


def has_worker(nanny: psutil.Process) -> bool:
    """Return whether the nanny has started its worker."""
    return bool(nanny.children(recursive=True))
