"""Command line parameters that skip pydantic if their value needs no check: texts, paths, missing values.

An empty value is an error: it usually comes from an unset shell variable, and an empty path would be the folder `.`.
typer 0.29 checks each value by pydantic, whose import takes longer than that of typer itself. Here only numbers,
choices and unreadable paths need pydantic.
"""

import os
from pathlib import Path
from typing import Any

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


class PlainCommand(TyperCommand):
    """A command with these parameters."""

    def get_params(self, ctx: Any) -> Any:
        """Return options and arguments."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with these parameters."""

    def get_params(self, ctx: Any) -> Any:
        """Return options and arguments."""
        return _plain(super().get_params(ctx))


def _plain(params: Any) -> Any:
    # typer creates the parameters of a command itself, and has no option for their class.
    for parameter in params:
        parameter.__class__ = PlainOption if isinstance(parameter, TyperOption) else PlainArgument
    return params
