"""TOML files that describe hardware and sites: their entries, each with its place for messages."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from offpeak.errors import BadInput
from offpeak.text import did_you_mean


def parse_toml(text: bytes, file: str, *, example: str = 'a = "b"', error: type[BadInput] = BadInput) -> dict[str, Any]:
    """Return what the file holds. Raises `error` if it is no TOML, or defines a key twice."""
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise error(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        hint = f"the file is TOML: text stands in quotes, as in {example}"
        if "twice" in str(problem) or "overwrite" in str(problem):
            hint = "a name stands for one table or value: rename one of the two, or join them"
        raise error(f"{file}: is not TOML: {problem}", hint=hint) from None


@dataclass(frozen=True)
class TomlEntry:
    """A value in a file, and its dotted key: "" for the whole file."""

    file: str
    key: str
    written: object

    def wrong(self, what: str, *, hint: str) -> BadInput:
        """Return an error about this entry."""
        return BadInput(": ".join(filter(None, (self.file, self.key, what))), hint=hint)

    def items(self, hint: str) -> tuple["TomlEntry", ...]:
        """Return the entries of a list. Raises BadInput with the hint if it is none."""
        if not isinstance(self.written, list):
            raise self.wrong("is not a list", hint=hint)
        return tuple(TomlEntry(self.file, f"{self.key}[{i}]", written) for i, written in enumerate(self.written, 1))


@dataclass(frozen=True)
class TomlFormat:
    """A kind of file: what it describes, such as "a node class", and an example of the value of each key."""

    noun: str
    examples: Mapping[str, str]

    def parse(self, text: bytes, file: str) -> TomlEntry:
        """Return the whole file. Raises BadInput if it is no TOML, or defines a key twice."""
        key, example = next(iter(self.examples.items()))
        return TomlEntry(file, "", parse_toml(text, file, example=f"{key} = {example}"))

    def entries_below(
        self, table: TomlEntry, needed: tuple[str, ...], *, optional: tuple[str, ...] = ()
    ) -> dict[str, TomlEntry]:
        """Return a table's entries. Raises BadInput unless it has the needed keys and none but these and `optional`."""
        found = self.named_entries(table, needed)
        for key in found:
            if key not in (*needed, *optional):
                raise found[key].wrong(f"is no key of {self.noun}", hint=did_you_mean(key, (*needed, *optional)))
        for key in needed:
            if key not in found:
                raise table.wrong(f"{key} is missing", hint=f"add {self.how_to_write(key)}")
        return found

    def named_entries(self, table: TomlEntry, needed: tuple[str, ...] = ()) -> dict[str, TomlEntry]:
        """Return the entries of a table whose keys are free. Raises BadInput if it is no table."""
        if not isinstance(table.written, dict):
            raise table.wrong("is no table", hint=self.how_to_write(table.key.rpartition(".")[2], needed))
        path = f"{table.key}." if table.key else ""
        return {key: TomlEntry(table.file, f"{path}{key}", written) for key, written in table.written.items()}

    def how_to_write(self, key: str, needed: tuple[str, ...] = ()) -> str:
        """Return an example of a key, or of a table with the keys that it needs."""
        return (
            f"{key} = {self.examples[key]}" if key in self.examples else f"write [{key}], and below it {_list(needed)}"
        )


def _list(keys: tuple[str, ...]) -> str:
    return ", ".join(keys) or "its entries"
