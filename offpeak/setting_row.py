"""A row of the table of settings, and the value that a setting has."""

from dataclasses import dataclass, field
from typing import Any

from offpeak.setting_kinds import Kind


@dataclass(frozen=True)
class Setting:
    """One row of the table. `default` and `example` are as an operator writes them; a default of None means not set."""

    section: str
    key: str
    attribute: str
    kind: Kind
    unit: str
    default: object
    doc: str
    example: object
    flag: str

    @property
    def name(self) -> str:
        """The setting's name in messages and tables, such as `scheduling.window`."""
        return f"{self.section}.{self.key}"


@dataclass(frozen=True)
class Value:
    """A setting's value as it was written, as it was parsed, and where it came from.

    `origin` is "default", a file and line such as "offpeak.toml:12", or the command line's flag.
    """

    written: object
    parsed: Any
    origin: str


def row(kind: Kind, flag: str, doc: str, *, default: object = None, example: object = None, unit: str = "") -> Any:
    """Return the dataclass field whose metadata is this row of the table."""
    columns = {"kind": kind, "unit": unit, "default": default, "doc": doc, "flag": flag}
    parsed = None if default is None else kind.read(default)
    return field(default=parsed, metadata=columns | {"example": default if example is None else example})
