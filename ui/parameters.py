"""Parameters of the command line that are as they should be before they are checked: text, a path, what was not given.

typer 0.29 has pydantic check each of them, which takes longer to import than typer itself. Here only numbers, choices
and paths that cannot be read are left to it.
"""

import os
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class AsTyped:
    """Takes the value of a parameter as it is, or has `check` look at it, which is slow to begin."""

    def __init__(self, check: Any) -> None:
        self._check = check

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer does; BadParameter."""
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
