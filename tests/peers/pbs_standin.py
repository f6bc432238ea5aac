"""A PBS server that is not there, in a thread of its own: its programs stand in a folder for PATH."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, Pbs, new_pbs
from offpeak.sim_backend.pbs_standin.server import USER_VARIABLE, served, write_programs
from offpeak.sim_backend.scheduler.cluster import SimNode

SETUP = Path(__file__).parents[2] / "deploy" / "openpbs" / "setup"
CPUS = 8
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class StandIn:
    """A running server; `programs` is the folder of its commands."""

    pbs: Pbs
    programs: Path
    loop: asyncio.AbstractEventLoop

    @property
    def path(self) -> str:
        """A PATH in which its commands are first."""
        return f"{self.programs}{os.pathsep}{os.environ['PATH']}"

    def run(self, *command: str, user: str = "", stdin: str = "") -> str:
        """Return what a command prints; CalledProcessError if it fails."""
        done = subprocess.run(
            command,
            env={**os.environ, "PATH": self.path, USER_VARIABLE: user},
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def do(self, work: Callable[[Pbs], Answer]) -> Answer:
        """Return what the work makes of the server, between two of its calls."""

        async def done() -> Answer:
            return work(self.pbs)

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result()


@contextmanager
def standin(kind: str, folder: Path, *, nodes: int = 3) -> Iterator[StandIn]:
    """Run a server of that kind with idle nodes until the block ends.

    OpenPBS is set up for offpeak, and its sched_config, which PBS_CONF_FILE leads to, orders no jobs.
    """
    names = [f"node{number}" for number in range(1, nodes + 1)]
    pbs = new_pbs(kind, {name: SimNode(name, CPUS, features=("fast",)) for name in names})
    before = {name: value for name, value in os.environ.items() if name == "PBS_CONF_FILE"}
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with served(pbs, folder / "pbs.sock"):
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        ready.wait(300)
        running = StandIn(pbs, write_programs(folder, folder / "pbs.sock"), loop)
        if kind == OPENPBS:
            (folder / "sched_priv").mkdir(exist_ok=True)
            (folder / "sched_priv" / "sched_config").write_text("fair_share: false ALL\n")
            (folder / "pbs.conf").write_text(f"PBS_HOME={folder}\n")
            os.environ["PBS_CONF_FILE"] = f"{folder}/pbs.conf"
            installed(running, folder)
        yield running
    finally:
        if kind == OPENPBS:
            os.environ.pop("PBS_CONF_FILE", None)
            os.environ.update(before)
        loop.call_soon_threadsafe(ended.set)
        thread.join(300)
        loop.close()


def installed(running: StandIn, folder: Path, what: str = "install") -> str:
    """Return what the installer says."""
    environment = {**os.environ, "PATH": running.path, "OFFPEAK_FORMULA_FILE": str(folder / "kept" / "formula")}
    done = subprocess.run(
        (sys.executable, "-I", SETUP, what), env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
