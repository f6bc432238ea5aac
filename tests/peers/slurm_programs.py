"""Slurm's programs of deploy/slurm with a socket, a state folder and a log of a test's own."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

DEPLOYED = Path(__file__).resolve().parents[2] / "deploy" / "slurm"
NAMES = ("offpeak-resume", "offpeak-suspend", "offpeak-resume-fail")


@dataclass(frozen=True)
class SlurmPrograms:
    """A folder for all of it; `wrapped` is a script of the same name that slurmctld can run."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Where the agent may answer."""
        return self.folder / "run" / "agent.sock"

    @property
    def state(self) -> Path:
        """Where the agent leaves wake.json."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """The file of the programs' lines."""
        return self.folder / "offpeak.log"

    @property
    def next_program(self) -> Path:
        """What names the site's own programs; not there at first."""
        return self.folder / "next_program.conf"

    @property
    def environment(self) -> dict[str, str]:
        """What tells the programs of these."""
        names = ("OFFPEAK_SOCKET", "OFFPEAK_STATE_FOLDER", "OFFPEAK_SLURM_LOG", "OFFPEAK_NEXT_PROGRAM")
        return dict(zip(names, map(str, (self.socket, self.state, self.log, self.next_program)), strict=True))

    def lines(self) -> list[str]:
        """Return what was logged, without time and process."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line.partition("]: ")[2] for line in text.splitlines()]

    def run(self, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        """Run one as slurmctld does, with next to no environment."""
        given = self.environment | {"PATH": "/usr/bin:/bin"} | environment
        return subprocess.run([DEPLOYED / name, *arguments], env=given, capture_output=True, timeout=300, check=False)

    def started(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one and return at once."""
        given = self.environment | {"PATH": "/usr/bin:/bin"} | environment
        return subprocess.Popen([DEPLOYED / name, *arguments], env=given, stdin=subprocess.DEVNULL)

    def wrapped(self, name: str) -> Path:
        """Return a script that runs it with the environment above."""
        script = self.folder / name
        assignments = " ".join(f"{key}='{value}'" for key, value in self.environment.items())
        script.write_text(f'#!/bin/sh\n{assignments} exec {DEPLOYED / name} "$@"\n')
        script.chmod(0o755)
        return script


def slurm_programs(folder: Path) -> SlurmPrograms:
    """Make the folders."""
    made = SlurmPrograms(folder)
    made.state.mkdir()
    made.socket.parent.mkdir()
    return made
