"""Commands with short help, and parameters that skip pydantic if their value needs no check: texts, paths, no value.

An empty value is an error: it usually comes from an unset shell variable, and an empty path would be the folder `.`.
typer 0.29 checks each value by pydantic, whose import takes longer than that of typer itself. Here only numbers,
choices and unreadable paths need pydantic.
"""

import os
from copy import copy
from pathlib import Path
from textwrap import wrap
from typing import Any

from typer import echo
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from offpeak.errors import BadInput


class AsTyped:
    """Takes the value of a parameter unchanged if possible, else calls `check`, which is slow to import."""

    def __init__(self, check: Any) -> None:
        self._check = check

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer does; raise BadInput if it is empty, BadParameter if it is invalid."""
        _refuse_empty(value, param, ctx)
        kind = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if type(value) is kind:
            return value
        if kind == list[str] and all(isinstance(each, str) for each in value):
            return list(value)
        if kind is Path and isinstance(value, str) and (os.access(value, os.R_OK) or not os.path.lexists(value)):
            return Path(value)
        return self._check().coerce(value, param=param, ctx=ctx)


def _refuse_empty(value: Any, param: Any, ctx: Any) -> None:
    """Raise BadInput for an empty value; the arguments of a job's script may be empty."""
    values = (value if param.multiple else (value,)) or ()
    if param.nargs == -1 or all(not isinstance(each, str) or each.strip() for each in values):
        return
    what = f"{param.opts[0]}: its value is empty"
    hint = f"write one after {param.opts[0]}, or leave the option out"
    if not isinstance(param, TyperOption):
        what = f"{param.display_name_raw}: the argument is empty"
        hint = f"{ctx.command_path} --help shows its arguments"
    raise BadInput(what, hint=f'{hint}; "$NAME" is empty where that variable is not set')


class PlainOption(TyperOption):
    """An option whose value is taken unchanged if possible."""

    def get_runtime_param(self) -> Any:
        """Return the converter of the typed text."""
        return AsTyped(super().get_runtime_param)


class PlainArgument(TyperArgument):
    """An argument whose value is taken unchanged if possible."""

    def get_runtime_param(self) -> Any:
        """Return the converter of the typed text."""
        return AsTyped(super().get_runtime_param)


FIRST_SCREEN = 15
"""Options that --help explains; those of further settings it names by section."""
METAVARS = {str: "TEXT", int: "N", float: "NUMBER", Path: "FILE", list[str]: "TEXT[,TEXT]"}


class _ShortHelp:
    """Help with -h, options by section, and examples."""

    _everything: Any = None

    def get_help_option_names(self, _ctx: Any) -> list[str]:
        """Return the names of the help option."""
        return ["-h", "--help"]

    def get_params(self, ctx: Any) -> Any:
        """Return arguments and options of the classes above, and --help-all if --help names some options only."""
        # typer creates the parameters of a command itself, and has no option for their class.
        params = super().get_params(ctx)  # type: ignore[misc]
        for parameter in params:
            parameter.__class__ = PlainOption if isinstance(parameter, TyperOption) else PlainArgument
            if parameter.metavar is None and isinstance(parameter, TyperOption):
                parameter.metavar = METAVARS.get(parameter.type_descriptor.annotation)
            elif parameter.metavar is None:
                parameter.metavar = parameter.name.upper()
        if _is_long(params):
            params.insert(-1, self._help_all(params[-1]))
        return params

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; without --help-all the options of most settings only by name."""
        params = self.get_params(ctx)
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in params:
            section = "Options" if isinstance(parameter, TyperOption) else "Arguments"
            sections.setdefault((_is_long(params) and parameter.rich_help_panel) or section, []).append(parameter)
        named = [] if ctx.meta.get(_EVERYTHING) else [name for name in sections if name not in {"Arguments", "Options"}]
        for section, members in sections.items():
            records = [record for each in members if (record := each.get_help_record(ctx))]
            if records and section not in named:
                with formatter.section(section):
                    formatter.write_dl(records)
        if named:
            with formatter.section("More options, explained by --help-all"):
                rows = []
                for name in named:
                    flags = wrap(", ".join(each.opts[0] for each in sections[name]), 62, break_on_hyphens=False)
                    rows += [(name if line == flags[0] else "", line) for line in flags]
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples of the command."""
        from offpeak.ui.examples import EXAMPLES

        if examples := EXAMPLES.get(ctx.command_path):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    def _help_all(self, help_option: Any) -> Any:
        # typer compares options by identity: it must be the same one each time.
        if self._everything is None:
            self._everything = copy(help_option)
            self._everything.opts, self._everything.name = ["--help-all"], "help_all"
            self._everything.help, self._everything.callback = "Explain all options and exit.", _show_everything
        return self._everything


_EVERYTHING = "offpeak.ui.parameters.everything"


def _is_long(params: Any) -> bool:
    return sum(isinstance(parameter, TyperOption) for parameter in params) > FIRST_SCREEN


def _show_everything(ctx: Any, _parameter: Any, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[_EVERYTHING] = True
        echo(ctx.get_help())
        ctx.exit()


class PlainCommand(_ShortHelp, TyperCommand):
    """A command with these parameters and this help."""


class PlainGroup(_ShortHelp, TyperGroup):
    """A group of commands with these parameters and this help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
