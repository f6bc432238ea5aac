"""Parameters that are taken as they are come out as typer's own checks would give them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from offpeak.errors import BadInput
from offpeak.ui.command import app as offpeak
from offpeak.ui.command import run
from offpeak.ui.parameters import PlainCommand

LINES: tuple[list[str], ...] = (
    [],
    ["a.sh"],
    ["a", "", "--", ""],
    ["a//b", "x", "-", "--", "--more"],
    [".", "--text", "-5", "--number", "7", "--ratio", "0.5", "--on", "--many", "a", "--many", "b"],
    ["--number", "x"],
    ["--number", "0"],
    ["--text"],
)


def taken(kind: type[TyperCommand], arguments: list[str]) -> Any:
    """Return what a command is given for these words, or what is said against them."""
    seen: list[Any] = []
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(cls=kind)
    def command(
        script: Annotated[Path | None, typer.Argument()] = None,
        arguments: Annotated[list[str] | None, typer.Argument()] = None,
        text: str | None = None,
        number: Annotated[int, typer.Option(min=1)] = 3,
        ratio: float = 0.25,
        many: list[str] | None = None,
        on: bool | None = None,
    ) -> None:
        seen.append((script, arguments, text, number, ratio, many, on))

    try:
        get_command(app)(list(arguments), standalone_mode=False)
    except typer.TyperException as problem:
        return problem.format_message()
    return seen


@pytest.mark.parametrize("arguments", LINES)
def test_they_are_what_typer_makes_of_them(arguments: list[str]) -> None:
    assert repr(taken(PlainCommand, arguments)) == repr(taken(TyperCommand, arguments))


@pytest.mark.parametrize(
    "arguments", [["--text", ""], ["--text", " "], ["--many", "a", "--many", ""], [""], ["--number", ""]]
)
def test_an_empty_value_is_refused(arguments: list[str]) -> None:
    with pytest.raises(BadInput, match=r"(--\w+: its value|SCRIPT: the argument) is empty"):
        taken(PlainCommand, arguments)


def valued_options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each option that takes a value, after the words of its command."""
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from valued_options(command.commands[name], (*path, name))
    else:
        for param in command.params:
            if isinstance(param, TyperOption) and not param.is_flag:
                yield (*path, param.opts[0])


def test_no_option_of_any_command_takes_an_empty_value(capsys: pytest.CaptureFixture[str]) -> None:
    options = list(valued_options(get_command(offpeak)))
    for arguments in options:
        assert run([*arguments, ""]) == 2, arguments
        first, hint = capsys.readouterr().err.splitlines()
        assert first == f"offpeak: error: {arguments[-1]}: its value is empty"
        assert hint.startswith("  hint: write one after ")
    assert {("estimate", "--prices"), ("simulate", "--report"), ("ledger", "prune", "--ledger")} <= set(options)


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_an_empty_file_name_is_no_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, ""]) == 2
    first, hint = capsys.readouterr().err.splitlines()
    assert first == "offpeak: error: LOG: the argument is empty"
    assert f"offpeak {command} --help" in hint


def test_missing_required_parameter_is_an_error() -> None:
    app = typer.Typer(add_completion=False)

    @app.command(cls=PlainCommand)
    def named(name: str) -> None:
        raise AssertionError(name)

    with pytest.raises(typer.TyperException, match="name"):
        get_command(app)([], standalone_mode=False)


def test_a_command_of_texts_and_paths_starts_without_pydantic(tmp_path: Path) -> None:
    program = (
        "import sys, offpeak.ui.command as c\n"
        f"c.run(['show-config', '--config', {str(tmp_path)!r} + '/absent'])\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, "absent: cannot read" in done.stderr) == ("False\n", True)
