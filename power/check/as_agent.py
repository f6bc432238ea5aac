"""Runs a subcommand as the agent would: as its user, in the sandbox of its unit.

A test as root says little about the agent, which has another user, a private /tmp and a system call filter.
"""

import os
import pwd
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from offpeak.errors import OffpeakError

UNIT = "offpeak-agent.service"
USER = "offpeak"
AS_AGENT_VARIABLE = "OFFPEAK_AS_AGENT"
"""Set in the environment of the subcommand, so that it does not start itself again."""
SYSTEMD_FOLDER = Path("/run/systemd/system")
TRIAL_S = 60.0
EXEC_FAILED = range(200, 256)
"""Exit codes of systemd for the step at which the start of a program failed (systemd.exec(5))."""

_NOT_OF_A_SANDBOX = (
    *("Exec", "Restart", "StartLimit", "Timeout", "Watchdog", "Standard", "TTY", "Syslog", "FileDescriptorStore"),
    *("Type", "NotifyAccess", "PIDFile", "BusName", "RemainAfterExit", "GuessMainPID", "SuccessExitStatus", "Sockets"),
    *("RootDirectoryStartOnly", "OOMPolicy", "USBFunction", "NonBlocking", "RemoveIPC", "RuntimeDirectoryPreserve"),
)
_EMPTY_IS_A_SET = ("CapabilityBoundingSet", "AmbientCapabilities")


class UnitCannotRun(OffpeakError):
    """The unit cannot start its program, so the agent cannot run either."""


@dataclass(frozen=True)
class UnitSettings:
    """The command of a unit, and its sandbox settings in order."""

    command: tuple[str, ...]
    sandbox: tuple[str, ...]

    @property
    def program(self) -> tuple[str, ...]:
        """The arguments before the subcommand."""
        arguments = self.command
        return arguments[: arguments.index("agent")] if "agent" in arguments else arguments[:1]

    @property
    def config(self) -> tuple[str, ...]:
        """The option for another settings file, if the unit has one."""
        for at, argument in enumerate(self.command):
            if argument.startswith("--config="):
                return (argument,)
            if argument == "--config":
                return self.command[at : at + 2]
        return ()


def run_as_agent(arguments: Sequence[str], remark: Callable[[str], None]) -> int | None:
    """Run `offpeak ARGUMENTS` as the agent and return the exit code; None if only this process can run it.

    `remark` takes a line about the user and the sandbox of the run. Raises UnitCannotRun if systemd cannot start it.
    """
    if AS_AGENT_VARIABLE in os.environ or "OFFPEAK_CONFIG" in os.environ:
        return None
    unit = read_installed_unit() if SYSTEMD_FOLDER.exists() else None
    if unit is None and not any(each.pw_name == USER for each in pwd.getpwall()):
        return None
    me = pwd.getpwuid(os.geteuid()).pw_name
    if me != "root":
        remark(f"checked as {me}, outside the agent's unit: `sudo offpeak check` shows what the agent can do")
        return None
    if unit is None:
        return _run_as_user(arguments, remark)
    trial = _run_captured(*sandbox_command(unit, [*unit.program, "--version"], {}))
    if trial.returncode in EXEC_FAILED:
        message = f"{UNIT} cannot start {unit.program[0]}: systemd's exit code {trial.returncode}"
        hint = (
            f"systemctl status {UNIT}; 203: the program, or its Python (head -1 {unit.program[0]}), is in a folder "
            "that the unit cannot enter, such as a home: PYTHON=/usr/bin/python3.11 deploy/install"
        )
        raise UnitCannotRun(message, hint=hint)
    if trial.returncode:
        why = " ".join(trial.stderr.split()) or f"exit code {trial.returncode}"
        remark(f"checked as root, outside the sandbox of {UNIT}, which may restrict the agent further: {why}")
        return None
    remark(f"checked as the agent's user, in the sandbox of {UNIT}")
    kept = {name: os.environ[name] for name in ("TERM", "COLUMNS", "NO_COLOR", "LANG", "LC_ALL") if name in os.environ}
    command = [*unit.program, *arguments, *unit.config]
    return subprocess.run(sandbox_command(unit, command, {**kept, AS_AGENT_VARIABLE: "1"}), check=False).returncode


def read_installed_unit() -> UnitSettings | None:
    """Return the agent's unit with its drop-ins, None if it is not installed."""
    done = _run_captured("systemctl", "cat", "--no-pager", UNIT)
    return parse_unit(done.stdout) if done.returncode == 0 else None


def parse_unit(text: str) -> UnitSettings:
    """Parse the output of `systemctl cat`: the file and its drop-ins, one after the other."""
    section, command = "", ""
    sandbox: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        if section != "[Service]" or line.startswith(("#", ";", "[")) or "=" not in line:
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "ExecStart":
            command = value or command
        elif not key.startswith(_NOT_OF_A_SANDBOX):
            if not value:
                # In a unit file an empty value resets the setting. systemd-run would pass it on as a value.
                sandbox = [each for each in sandbox if not each.startswith(f"{key}=")]
            if value or key in _EMPTY_IS_A_SET:
                sandbox.append(f"{key}={value}")
    return UnitSettings(tuple(shlex.split(command.lstrip("@-:+!|"))), tuple(sandbox))


def sandbox_command(unit: UnitSettings, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command line that runs the command with the unit's settings, on this terminal."""
    properties = [*unit.sandbox, "RuntimeDirectoryPreserve=yes"]
    return [
        *("systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--service-type=exec"),
        *(f"--property={option}" for option in properties),
        *(f"--setenv={name}={value}" for name, value in environment.items()),
        *("--", *command),
    ]


def _run_as_user(arguments: Sequence[str], remark: Callable[[str], None]) -> int | None:
    why = f"{UNIT} is not installed" if SYSTEMD_FOLDER.exists() else "systemd is not running here"
    account = pwd.getpwnam(USER)
    environment = {**os.environ, AS_AGENT_VARIABLE: "1", "HOME": account.pw_dir, "USER": USER, "LOGNAME": USER}
    run = partial(
        subprocess.run,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=os.getgrouplist(USER, account.pw_gid),
        cwd="/",
        env=environment,
        check=False,
    )
    try:
        runs = run(["offpeak", "--version"], capture_output=True).returncode == 0
    except OSError:
        runs = False
    if not runs:
        remark(f"checked as root: {why}, and the user {USER} cannot run the command offpeak")
        return None
    remark(f"checked as the user {USER}, outside a sandbox: {why}")
    return run(["offpeak", *arguments]).returncode


def _run_captured(*arguments: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(arguments, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return subprocess.CompletedProcess(arguments, 1, "", f"{arguments[0]}: {problem}")
