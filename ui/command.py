"""The `offpeak` command: its subcommands, and the conversion of errors to messages and exit codes.

A subcommand is imported and built when it is named: a user who runs one does not wait for the imports of the
others.
"""

import os
import sys
import traceback
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from offpeak.errors import OffpeakError
from offpeak.ui.parameters import PlainCommand, PlainGroup

TASKS = {
    "Look": {
        "status": "offpeak.ui.agent.command",
        "queue": "offpeak.ui.agent.command",
        "why": "offpeak.ui.agent.command",
        "jobs": "offpeak.ui.agent.command",
        "nodes": "offpeak.ui.nodes.command",
        "power": "offpeak.ui.hardware.command",
        "prices": "offpeak.ui.forecast.command",
        "forecast": "offpeak.ui.forecast.command",
        "history": "offpeak.ui.agent.command",
        "ledger": "offpeak.ui.ledger.command",
        "report": "offpeak.ui.month.command",
        "verify": "offpeak.ui.ledger.command",
    },
    "Act": {
        "plan": "offpeak.ui.plan.command",
        "cap": "offpeak.ui.nodes.command",
        "shed": "offpeak.ui.agent.command",
        "submit": "offpeak.ui.federation.command",
    },
    "Study": {
        "estimate": "offpeak.ui.estimate.command",
        "simulate": "offpeak.ui.replay.command",
        "generate": "offpeak.ui.replay.command",
        "study": "offpeak.ui.replay.command",
    },
    "Set up": {
        "demo": "offpeak.ui.demo.command",
        "virtual": "offpeak.ui.hardware.command",
        "init": "offpeak.ui.hardware.command",
        "enroll": "offpeak.ui.hardware.command",
        "check": "offpeak.ui.hardware.command",
        "show-config": "offpeak.ui.options",
    },
    "Services": {
        "agent": "offpeak.ui.agent.command",
        "page": "offpeak.ui.agent.command",
        "broker": "offpeak.ui.federation.command",
        "snapshot": "offpeak.ui.federation.command",
    },
}
"""By task, in the order of --help: the module of each subcommand, which has a function or a Typer of that name."""
MODULES = {name: module for commands in TASKS.values() for name, module in commands.items()}


class Commands(UserDict[str, Any]):
    """Subcommands by name, imported and built on first access."""

    def __getitem__(self, name: str) -> Any:
        """Return the subcommand. Raises KeyError if there is none."""
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = _built(name, found)
        return found


class OffpeakCommands(PlainGroup):
    """The group of all subcommands."""

    def __init__(self, **attributes: Any) -> None:
        """Add the registered commands."""
        super().__init__(**attributes)
        self.commands = Commands(MODULES | dict(self.commands))

    def format_commands(self, _context: Any, formatter: Any) -> None:
        """Write the commands by task."""
        for task, names in TASKS.items():
            with formatter.section(task):
                width = formatter.width - 4 - max(map(len, MODULES))
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


def _built(name: str, module: str) -> Any:
    command = getattr(import_module(module), name.replace("-", "_"))
    if isinstance(command, typer.Typer):
        built = get_command(command)
        built.name = name
        return built
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=PlainCommand)(command)
    return get_command(app)


app = typer.Typer(cls=OffpeakCommands, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


COMPLETE = "_OFFPEAK_COMPLETE"
"""The environment variable that a shell's completion script sets."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 bad input, 3 not proven, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line, print an error as one line, and return the exit code."""
    debug = "--debug" in arguments
    if COMPLETE in os.environ:
        # Only a completion request of the shell waits for this import.
        from typer._completion_classes import completion_init

        completion_init()
    try:
        code = app(
            [argument for argument in arguments if argument != "--debug"], prog_name="offpeak", standalone_mode=False
        )
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_unwritable_output()
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = _say(error)
        _drop_unwritable_output()
        return code
    if code == 130:
        typer.echo("offpeak: interrupted", err=True)
    return int(code or 0)


def _drop_unwritable_output() -> None:
    """Let Python's flush at exit print no second error: the reader has closed the pipe, or the disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.callback(invoke_without_command=True)
def offpeak(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,  # noqa: ARG001
) -> None:
    """Run HPC jobs when electricity is cheap and clean."""
    if version:
        from offpeak.installation import installed_version

        typer.echo(f"offpeak {installed_version()}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _say(error: Exception) -> int:
    """Print an error's message and hint, a line for each, and return its exit code."""
    if isinstance(error, OffpeakError):
        return _print(str(error), error.hint, error.exit_code)
    if isinstance(error, typer.TyperException):
        command = getattr(getattr(error, "ctx", None), "command_path", "offpeak")
        message = " ".join(error.format_message().split()).rstrip(".")
        return _print(message, f"{command} --help shows its options", error.exit_code)
    if isinstance(error, OSError):
        return _print(": ".join(filter(None, [error.filename, error.strerror])), "--debug shows where", 1)
    if isinstance(error, MemoryError):
        return _print("not enough memory", "use a smaller machine or log, or a part of it: --nodes, --days", 1)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return _print(f"internal error: {what}", "--debug shows the traceback", 1, kind="")


def _print(message: str, hint: str, exit_code: int, *, kind: str = "error: ") -> int:
    for line in message.splitlines():
        typer.echo(f"offpeak: {kind}{line}", err=True)
    for line in hint.splitlines():
        typer.echo(f"  hint: {line}", err=True)
    return exit_code
