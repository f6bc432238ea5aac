"""Parameters of the command line that are as they should be before they are checked: text, a path, what was not given.

A value that is empty is an error: a shell variable that is not set leaves one, and an empty path is the folder `.`.
typer 0.29 has pydantic check each of them, which takes longer to import than typer itself. Here only numbers, choices
and paths that cannot be read are left to it.
"""

import os
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from offpeak.errors import BadInput


class AsTyped:
    """Takes the value of a parameter as it is, or has `check` look at it, which is slow to begin."""

    def __init__(self, check: Any) -> None:
        self._check = check

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer does; BadInput if it is empty, BadParameter."""
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
    """Raise BadInput for an empty value; the words of a job's script, without a number, may be empty."""
    values = (value if param.multiple else (value,)) or ()
    if param.nargs == -1 or all(not isinstance(each, str) or each.strip() for each in values):
        return
    what = f"{param.opts[0]}: its value is empty"
    hint = f"write one after {param.opts[0]}, or leave the option out"
    if not isinstance(param, TyperOption):
        what = f"{param.display_name_raw}: the argument is empty"
        hint = f"{ctx.command_path} --help shows what it takes"
    raise BadInput(what, hint=f'{hint}; "$NAME" is empty where that variable is not set')


class PlainOption(TyperOption):
    """An option whose value is taken as it is where that can be."""

    def get_runtime_param(self) -> Any:
        """Return what makes a value of what was typed."""
        return AsTyped(super().get_runtime_param)


class PlainArgument(TyperArgument):
    """The same of an argument."""

    def get_runtime_param(self) -> Any:
        """Return what makes a value of what was typed."""
        return AsTyped(super().get_runtime_param)


class PlainCommand(TyperCommand):
    """A command with such parameters."""

    def get_params(self, ctx: Any) -> Any:
        """Return options and arguments."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with such parameters."""

    def get_params(self, ctx: Any) -> Any:
        """Return options and arguments."""
        return _plain(super().get_params(ctx))


def _plain(params: Any) -> Any:
    # typer makes the parameters of a command itself, and asks for no class of them.
    for each in params:
        each.__class__ = PlainOption if isinstance(each, TyperOption) else PlainArgument
    return params
