"""An `offpeak agent` on a cluster: started, killed at any moment, started again; all that it says is kept in a log."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from local_server import start_server
from powered_plan import REPOSITORY
from powered_stage import OFFPEAK, PoweredStage

STOP_S = 10.0


class Process(Protocol):
    """What can be done to it: subprocess.Popen has all of this."""

    pid: int

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


Start = Callable[[Sequence[str], Path, Mapping[str, str]], Process]
"""Starts `offpeak` with these words, a log and an environment."""


def start_offpeak(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start it as a shell does."""
    return start_server((*OFFPEAK, *words), log, environment)


def asked_offpeak(cluster: PoweredStage, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what `offpeak` says to these words, with the settings that `write_site` has written."""
    settings = cluster.folder / "offpeak.toml"
    environment = {**cluster.environment, "PYTHONPATH": str(REPOSITORY), "OFFPEAK_CONFIG": str(settings)}
    return subprocess.run((*cluster.offpeak, *words), env=environment, capture_output=True, text=True, check=False)


@dataclass
class RunningAgent:
    """One agent, now running or not. `starts` counts how often it was started."""

    cluster: PoweredStage
    words: tuple[str, ...]
    start_process: Start = start_offpeak
    process: Process | None = None
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """What it has said, over all starts."""
        return self.cluster.folder / "agent.log"

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it; RuntimeError if it runs."""
        if self.runs:
            raise RuntimeError("the agent runs")
        words = {**self.cluster.environment, "PYTHONPATH": str(REPOSITORY), **self.environment}
        self.process = self.start_process(self.words, self.log, words)
        self.starts += 1

    def kill9(self) -> None:
        """End it as it stands."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill9()

    def reread(self) -> None:
        """Have it read its settings again; ProcessLookupError if it has ended."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGHUP)

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill9()
        self.start()


@contextmanager
def agent(cluster: PoweredStage, settings: Path, *words: str, by: Start = start_offpeak) -> Iterator[RunningAgent]:
    """Run `offpeak agent --config SETTINGS` and further words until the block ends."""
    made = RunningAgent(cluster, ("agent", "--config", str(settings), *words), by)
    made.start()
    try:
        yield made
    finally:
        made.stop()
