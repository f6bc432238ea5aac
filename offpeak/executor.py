"""Where independent tasks run: in this process, in local processes, on the workers of a Dask scheduler, or on workers
that are jobs of the site's own scheduler.

All of them call a function on each task and hand over each result once, as it comes. The function carries its data and
travels once to each worker, so that a worker needs no file of the user. A worker that is lost costs the tasks that it
had: they run again elsewhere.
"""

import hashlib
import logging
import math
import os
import pickle
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from glob import glob
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import connection, get_context, parent_process
from operator import call
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from offpeak.compiled import module_folder
from offpeak.errors import BadInput, OffpeakError
from offpeak.installation import installed_version, missing_extra
from offpeak.text import counted

Task = TypeVar("Task")
Result = TypeVar("Result")
Done = Callable[[Task, Result], object]

MOST_BREAKS = 3
"""So often in a row processes may be killed before any has a result."""


class Executor(Protocol):
    """A place where tasks run."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task], done: Done[Task, Result]) -> None:
        """Call `function` on each task, and `done` in this thread with each task and its result as it comes.

        Ctrl-C and SIGTERM raise KeyboardInterrupt and leave no process behind. Raises what `function` raises, and
        OffpeakError if the place is lost.
        """


class Threads:
    """This process, with a thread for each processor: for functions that run mostly in compiled kernels."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task], done: Done[Task, Result]) -> None:
        """See Executor. A function that calls `check_interrupt` ends early after Ctrl-C."""
        stop = threading.Event()
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), initializer=setattr, initargs=(_THREAD, "stop", stop))
        try:
            futures = {pool.submit(function, task): task for task in tasks}
            for future in as_completed(futures):
                done(futures[future], future.result())
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


THREADS = Threads()

_THREAD = threading.local()


class _Stopped(Exception):
    """The tasks of this thread were interrupted from outside."""


def check_interrupt(*_: object) -> None:
    """Raise an exception in a thread whose tasks were interrupted."""
    stop = getattr(_THREAD, "stop", None)
    if stop is not None and stop.is_set():
        raise _Stopped


@dataclass(frozen=True)
class LocalProcesses:
    """So many processes of this machine, or this one where a single one is enough."""

    count: int

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task], done: Done[Task, Result]) -> None:
        """See Executor. Ctrl-C takes effect after the tasks that are running."""
        left = dict(enumerate(tasks))

        def finish(number: int, result: Result) -> None:
            done(left.pop(number), result)

        with _sigterm_interrupts():
            losses = 0
            for number, task in enumerate(tasks if self.count == 1 or len(tasks) < 2 else ()):
                finish(number, function(task))
            while left:
                before = len(left)
                try:
                    self._run_some(pickle.dumps(function), dict(left), finish)
                except BrokenProcessPool as problem:
                    losses = losses + 1 if len(left) == before else 0
                    if losses == MOST_BREAKS:
                        hint = "start the command again: a study continues; fewer --processes need less memory"
                        raise OffpeakError(f"processes were killed {losses} times in a row", hint=hint) from problem

    def _run_some(self, packed: bytes, tasks: dict[int, Any], finish: Callable[[int, Any], None]) -> None:
        # Fresh processes: one that is forked may inherit a lock of numba's or pyarrow's threads.
        pool = ProcessPoolExecutor(
            min(self.count, len(tasks)), mp_context=get_context("spawn"), initializer=_begin, initargs=(packed,)
        )
        try:
            # The terminal sends Ctrl-C to the whole group, and one process reacts.
            with _on_signal(signal.SIGINT, signal.SIG_IGN):
                futures = {pool.submit(_call_function, task): number for number, task in tasks.items()}
            for future in as_completed(futures):
                finish(futures[future], future.result())
        finally:
            pool.shutdown(cancel_futures=True)


def local_processes(count: int | None) -> LocalProcesses:
    """Return so many processes of this machine, by default one a processor."""
    return LocalProcesses(count or len(os.sched_getaffinity(0)))


_FUNCTION: list[Callable[[Any], Any]] = []


def _begin(packed: bytes) -> None:
    """Keep the function of all tasks of this process, which ends when its parent is gone."""
    _FUNCTION[:] = [pickle.loads(packed)]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _call_function(task: object) -> object:
    return _FUNCTION[0](task)


@contextmanager
def _on_signal(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Let the signal have another effect meanwhile, also on processes that start; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _sigterm_interrupts() -> AbstractContextManager[None]:
    """Let SIGTERM, which batch systems send, end a run in order, as Ctrl-C does."""
    return _on_signal(signal.SIGTERM, signal.default_int_handler)


@cache
def program() -> str:
    """Return what decides results besides the tasks: offpeak's version and sources, Python, numpy and numba."""
    digest = hashlib.sha256()
    for package in ("offpeak", "offpeak_studies"):
        root = module_folder([package])
        # A repository has links to packages, which Path.rglob does not follow.
        for source in sorted(glob("**/*.py", root_dir=root, recursive=True)):
            digest.update(f"{package}/{source}".encode() + (root / source).read_bytes())
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    python = ".".join(platform.python_version_tuple()[:2])
    return f"offpeak {installed_version()} ({digest.hexdigest()[:8]}), Python {python}, {libraries}"


@dataclass(frozen=True)
class RemoteFunction:
    """A function on its way to workers: they refuse it if their program is another one than the caller's."""

    packed: bytes
    program: str

    def __call__(self, tasks: Sequence[bytes]) -> bytes:
        """Return the results of the packed tasks, and the seconds that each took on average, packed.

        The errors of offpeak name the worker.
        """
        where = f"worker on {socket.gethostname()}"
        try:
            if self.program != program():
                hint = "install the same versions for the workers as here, and start the workers again"
                raise OffpeakError(f"it runs {program()}; the caller {self.program}", hint=hint)
            function, begin_s = self._function, time.perf_counter()
            results = [function(pickle.loads(task)) for task in tasks]
            return pickle.dumps((results, (time.perf_counter() - begin_s) / len(tasks)))
        except OffpeakError as problem:
            problem.args = (f"{where}: {problem}",)
            raise

    def __getstate__(self) -> dict[str, object]:
        """Return what travels."""
        return {"packed": self.packed, "program": self.program}

    @cached_property
    def _function(self) -> Callable[[Any], Any]:
        try:
            return pickle.loads(self.packed)  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as problem:
            hint = "install for the workers what is installed here, packages of your own policies too"
            raise BadInput(str(problem), hint=hint) from problem


QUEUES = {"slurm": ("squeue", "--me", "--noheader", "--format=%i %T %r"), "pbs": ("qstat",)}
"""Lists the jobs of the user, a line each that begins with the number; for each scheduler whose jobs can be workers."""
QUIET_DASK = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
}
"""An environment in which the servers of Dask do less beside tasks: they take a third of the processor time."""
MOST_JOBS = 4
MOST_LOSSES = 2
"""So often Dask may give a task up: each time after it has lost four workers."""
PROBES, BATCH_S, BATCHES_A_THREAD = 8, 0.5, 8
"""The first tasks show how long one takes; short ones then travel together, for so long, but in so many batches."""
NO_RESULT_S = 10.0
"""After so long without a result the executor checks whether there is any worker."""
GONE_S = 30.0
"""So long all jobs must be gone: Dask itself forgets a worker that has ended within 15 s, and submits another job."""


class DaskWorkers(ExitStack):
    """Workers of Dask: those of the scheduler at an address, or jobs of Slurm or PBS that run while they are needed.

    `on` is such as "dask://head:8786", "slurm", or "pbs:20" for at most 20 jobs. Raises BadInput if it is something
    else or needs packages that are not installed. Nothing is submitted before the first run or left after the block.
    """

    def __init__(self, on: str) -> None:
        super().__init__()
        self.on = on
        self._name, _, most = on.partition(":")
        if self._name not in QUEUES and not on.startswith(("dask://", "tls://")):
            hint = "--on dask://HOST:PORT, --on slurm, --on pbs, or --on slurm:8 for at most 8 jobs"
            raise BadInput(f"--on {on}: no such place to run", hint=hint)
        packages = ("distributed", "dask_jobqueue") if self._name in QUEUES else ("distributed",)
        if missing := [package.replace("_", "-") for package in packages if find_spec(package) is None]:
            raise missing_extra(f"--on {on}", "scale", *missing)
        if self._name in QUEUES and not (most or "1").isdecimal():
            raise BadInput(f"--on {on}: {most!r} is not a number of jobs", hint=f"--on {self._name}:8")
        self._most_jobs = int(most or MOST_JOBS) if self._name in QUEUES else 0
        self._client: Any = None
        self._jobs: Any = None
        self._folder = Path()
        self._refusals: list[str] = []

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task], done: Done[Task, Result]) -> None:
        """See Executor. Results come for as long as the scheduler runs, with whatever workers it has."""
        if not tasks:
            return
        packed = pickle.dumps(RemoteFunction(self._packed(function), program()))
        with _sigterm_interrupts():
            self._run_packed(packed, list(map(pickle.dumps, tasks)), lambda number, result: done(tasks[number], result))

    def _run_packed(self, packed: bytes, tasks: Sequence[bytes], done: Callable[[int, Any], object]) -> None:
        client = self._connected()
        distributed: Any = import_module("distributed")
        # Tasks name only functions of Python itself: the scheduler need not have offpeak. What it holds as a task, and
        # not as data on a worker, outlives each worker.
        function = client.submit(pickle.loads, packed, pure=False)
        running: dict[str, Any] = {}
        finished: SimpleQueue[tuple[Sequence[int], Any]] = SimpleQueue()
        losses: Counter[int] = Counter()
        waiting, left, least_s = range(PROBES, len(tasks)), len(tasks), BATCH_S

        def submit(numbers: Sequence[int]) -> None:
            future = client.submit(call, function, [tasks[number] for number in numbers], pure=False)
            running[future.key] = future
            future.add_done_callback(lambda future: finished.put((numbers, future)))

        try:
            for number in range(min(PROBES, left)):
                submit([number])
            while left:
                numbers, future = self._next(finished, left)
                del running[future.key]
                try:
                    results, each_s = pickle.loads(future.result())
                except distributed.KilledWorker as problem:
                    losses.update(numbers)
                    if losses[numbers[0]] == MOST_LOSSES:
                        hint = "do workers have enough memory, and jobs enough time (walltime)? a study continues"
                        raise OffpeakError(f"{self.on}: a task lost all its workers: {problem}", hint=hint) from None
                    for number in numbers:
                        submit([number])
                    continue
                except (CancelledError, distributed.comm.CommClosedError):
                    hint = "once it runs again, start the command again: a study continues where it stopped"
                    raise OffpeakError(f"{self.on}: the Dask scheduler is gone", hint=hint) from None
                except ImportError as problem:
                    hint = "start the workers with the Python of an offpeak of the same version"
                    raise OffpeakError(f"{self.on}: a worker has no offpeak: {problem}", hint=hint) from None
                left, least_s = left - len(numbers), min(least_s, each_s)
                for number, result in zip(numbers, results, strict=True):
                    done(number, result)
                if waiting and left <= len(waiting) + PROBES // 2:
                    threads = max(self._most_jobs, sum(client.nthreads().values()))
                    batches = max(int(len(waiting) * least_s / BATCH_S), min(len(waiting), BATCHES_A_THREAD * threads))
                    # Neighbours in a plan take equally long, so each batch has some of all.
                    for at in range(batches):
                        submit(waiting[at::batches])
                    waiting = range(0)
        finally:
            if client.status == "running":
                client.cancel([function, *running.values()], force=True)

    def _next(self, finished: "SimpleQueue[tuple[Sequence[int], Any]]", left: int) -> tuple[Sequence[int], Any]:
        """Return the next tasks that have finished, and say once if there is no worker for any."""
        is_said, gone, since_s = False, frozenset[str](), 0.0
        while True:
            try:
                return finished.get(timeout=NO_RESULT_S)
            except Empty:
                hint = f"~/.config/dask/jobqueue.yaml sets queue, account, python and more below {self._name}:"
                if self._refusals:
                    raise OffpeakError(f"{self.on}: no job can be submitted: {self._refusals[0]}", hint=hint) from None
                if self._client.scheduler_info()["workers"]:
                    gone = frozenset()
                    continue
                workers = self._jobs.workers.values() if self._jobs else ()
                jobs = frozenset(each.job_id for each in workers if each.job_id)
                queued, before = _queued(self._name, jobs), gone
                gone = jobs if queued == [] else frozenset()
                since_s = since_s if gone == before else time.monotonic()
                if gone and time.monotonic() - since_s >= GONE_S:
                    message = f"{self.on}: {counted(len(gone), 'job')} ended without a worker"
                    raise OffpeakError(f"{message}: {_last_line(self._folder, min(gone))}", hint=hint) from None
                if not is_said:
                    first = f"; job {queued[0]}" if queued else ""
                    sys.stderr.write(f"offpeak: {self.on} has no worker: {counted(left, 'task')} to do{first}\n")
                    is_said = True

    def _packed(self, function: object) -> bytes:
        try:
            return bytes(import_module("cloudpickle").dumps(function))
        except (pickle.PicklingError, TypeError, AttributeError) as problem:
            hint = "a policy of your own must consist of picklable values; without --on it runs here"
            raise BadInput(f"--on {self.on}: cannot be sent to workers: {problem}", hint=hint) from problem

    def _connected(self) -> Any:
        if self._client is None:
            distributed: Any = import_module("distributed")
            # Let only our own lines say what happens to workers.
            for name in filter(re.compile("distributed|dask|tornado").match, logging.root.manager.loggerDict):
                logging.getLogger(name).disabled = True
            warnings.filterwarnings("ignore", module="distributed|dask")
            if self._most_jobs:
                self._jobs = self._job_cluster()
            at = self._jobs or self.on.replace("dask://", "tcp://")
            try:
                self._client = self.enter_context(distributed.Client(at, set_as_default=False, timeout=NO_RESULT_S))
            except (OSError, ValueError) as problem:
                hint = "is HOST:PORT that of a running `dask scheduler`?"
                raise OffpeakError(f"{self.on}: no Dask scheduler answers: {problem}", hint=hint) from problem
        return self._client

    def _job_cluster(self) -> Any:
        """Return a cluster whose workers are jobs, as many as tasks need, as dask-jobqueue's own file configures them.

        Only workers with the certificate can connect, which a file of the user's keeps while the run lasts.
        """
        # It loads numba, which `offpeak --version` must not wait for.
        from offpeak.compiled import cache_base

        kind: Any = getattr(import_module("dask_jobqueue"), f"{self._name.upper()}Cluster")

        async def start(job: Any) -> None:
            try:
                await kind.job_cls.start(job)
            except (OSError, RuntimeError, ValueError) as problem:
                self._refusals.append(["no reason", *str(problem).split("stderr:")[-1].strip().splitlines()][-1])
                # The cluster closes in order only if each job has started.
                await import_module("distributed").deploy.spec.ProcessInterface.start(job)

        folder = cache_base() / "workers"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        configured = import_module("dask").config.get(f"jobqueue.{self._name}")
        self._folder = Path(configured["log-directory"] or folder)
        cores = configured["cores"] or 1
        given = {"cores": cores, "processes": cores, "memory": f"{2 * cores}GiB", "log-directory": str(folder)}
        own = {name.replace("-", "_"): value for name, value in given.items() if configured[name] is None}
        quiet = (f"export {name}={value}" for name, value in QUIET_DASK.items())
        cluster = kind(
            **own,
            job_script_prologue=[*quiet, *configured["job-script-prologue"]],
            job_cls=type("WorkerJob", (kind.job_cls,), {"start": start}),
            security=True,
            shared_temp_directory=configured["shared-temp-directory"] or str(folder),
            scheduler_options={"dashboard_address": "127.0.0.1:0", **configured["scheduler-options"]},
        )
        self.enter_context(cluster)
        adaptive: Any = import_module("distributed").Adaptive
        workers = configured["processes"] or cores

        async def whole_jobs(scaling: Any) -> int:
            """Return how many workers to have: with part of a job, Dask would cancel and submit it again, for ever."""
            target: int = await adaptive.target(scaling)
            return math.ceil(target / workers) * workers

        whole = type("WholeJobs", (adaptive,), {"target": whole_jobs})
        cluster.adapt(Adaptive=whole, minimum_jobs=0, maximum_jobs=self._most_jobs)
        return cluster


def _queued(name: str, jobs: Set[str]) -> list[str] | None:
    """Return the lines of those jobs that wait or run, None if the scheduler does not answer."""
    try:
        done = subprocess.run(QUEUES[name], capture_output=True, text=True, timeout=NO_RESULT_S, check=True)
    except (KeyError, OSError, subprocess.SubprocessError):
        return None
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    # PBS lists a job that has ended for a while: the last field but one is its state.
    ended = ("C", "F") if name == "pbs" else ()
    return [" ".join(each) for each in lines if each[0].split(".")[0] in jobs and each[-2] not in ended]


def _last_line(folder: Path, job: str) -> str:
    """Return the last line that a job wrote into its files in the folder."""
    with suppress(OSError):
        for file in sorted(folder.glob("[!.]*")):
            is_its = re.search(rf"(?<!\d){job}(?!\d)", file.name)
            if is_its and (lines := file.read_text(errors="replace").strip().splitlines()):
                return f"{lines[-1].strip()} ({file})"
    return f"job {job} wrote nothing into {folder}"


def executor_on(on: str | None, otherwise: Executor) -> AbstractContextManager[Executor]:
    """Return the workers that `--on` names, which are left at the end of the block; without it the other executor."""
    return DaskWorkers(on) if on else nullcontext(otherwise)
