"""Rows of a state file: objects of whole numbers and words, and what is said where one is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from offpeak.errors import BadInput
from offpeak.text import did_you_mean

FURTHEST = 2**53
"""No number lies beyond this: a larger one loses digits in many programs that write JSON."""


@dataclass(frozen=True)
class Row:
    """A JSON object of the file, and its dotted key: "" for the whole file, "queued[17]" for a row."""

    file: str
    key: str
    written: dict[str, Any]

    def wrong(self, key: str, what: str, *, hint: str) -> BadInput:
        """Return the error that says what is wrong at one of the row's keys."""
        return BadInput(f"{self.file}: {self.at(key)}: {what}", hint=hint)

    def at(self, key: str) -> str:
        """Return the dotted key of one of the row's keys."""
        return f"{self.key}.{key}" if self.key else key

    def number(self, key: str, *, least: int = -FURTHEST, most: int = FURTHEST) -> int:
        """Return the whole number at `key`; BadInput unless there is one from `least` to `most`."""
        number = self.value(key)
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.wrong(key, f"{number!r} is no whole number", hint="write it without quotes and decimals")
        if number < least:
            raise self.wrong(key, f"{number:,} is too small", hint=f"it is at least {least:,}")
        if number > most:
            raise self.wrong(key, f"{number:,} is too large", hint=f"it is at most {most:,}")
        return number

    def word(self, key: str, known: tuple[str, ...]) -> str:
        """Return the word at `key`; BadInput unless it is one of the known ones."""
        word = self.value(key)
        if word not in known:
            raise self.wrong(key, f"{word!r} is unknown", hint=did_you_mean(str(word), known))
        return str(word)

    def value(self, key: str) -> object:
        """Return what is written at `key`; BadInput if nothing is."""
        if key not in self.written:
            raise self.wrong(key, "is missing", hint=self._how_to_spell(key))
        return self.written[key]

    def row(self, key: str) -> "Row":
        """Return the object at `key`; BadInput if there is none."""
        return self.below(self.at(key), self.value(key))

    def rows(self, key: str) -> Iterator["Row"]:
        """Return the objects of the list at `key`; BadInput if there is no such list."""
        listed = self.value(key)
        if not isinstance(listed, list):
            raise self.wrong(key, "is no list", hint="write a list of objects in []; it may be empty")
        return (self.below(f"{self.at(key)}[{at}]", written) for at, written in enumerate(listed))

    def below(self, key: str, written: object) -> "Row":
        """Return what is written at a dotted key of the file; BadInput unless it is an object."""
        if not isinstance(written, dict):
            where = f"{self.file}: {key}" if key else self.file
            raise BadInput(f"{where}: is no object", hint='write it in {}, as in {"size": 1}')
        return Row(self.file, key, written)

    def only(self, *known: str) -> "Row":
        """Return the row; BadInput if it has a key that is not known."""
        for key in self.written:
            if key not in known:
                raise self.wrong(key, "is no key of a state file", hint=did_you_mean(key, known))
        return self

    def _how_to_spell(self, key: str) -> str:
        near = [written for written in self.written if written.casefold() == key.casefold()]
        return f"write {key!r} for {near[0]!r}" if near else f"add {key!r}, in s where it ends in _s"
