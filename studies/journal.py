"""The results of a study as they come, one JSON line each: what is in the file need not be run again."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from offpeak.errors import BadInput, CannotWrite


class Journal(AbstractContextManager["Journal"]):
    """A file that results are appended to; `known` are those that it had, by key. CannotWrite if it cannot be opened.

    A line is written at once, so an interrupt leaves whole lines. What a killed process left of a line is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("a+b")
        except OSError as problem:
            raise _cannot_write(path, problem) from problem
        try:
            _lock(self._file, path)
            self.known: Mapping[str, Any] = _known(path, _whole_lines(self._file))
        except BaseException as problem:
            self._file.close()
            if isinstance(problem, OSError):
                raise _cannot_write(path, problem) from problem
            raise

    def add(self, key: str, told: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Append a result; `told` says in the file, to a reader, what it is the result of."""
        line = json.dumps({"key": key, "of": told, "result": result}) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as problem:
            raise _cannot_write(self.path, problem) from problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other studies out until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait for it, or name another folder with --out"
        raise CannotWrite(f"{path}: another study writes to it", hint=hint) from None


def _whole_lines(file: BinaryIO) -> bytes:
    """Return the lines that end, and cut off the file what follows them."""
    file.seek(0)
    text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    file.truncate(len(whole))
    file.seek(0, os.SEEK_END)
    return whole


def _known(path: Path, text: bytes) -> dict[str, Any]:
    return dict(_entry(f"{path}:{number}", line) for number, line in enumerate(text.splitlines(), start=1))


def _entry(where: str, line: bytes) -> tuple[str, Any]:
    try:
        entry = json.loads(line)
        return str(entry["key"]), entry["result"]
    except (ValueError, KeyError, TypeError):
        raise damaged(where) from None


def damaged(where: str) -> BadInput:
    """Return the error of a line that is no result."""
    return BadInput(
        f"{where}: is no result of a study", hint="delete that line, or the file: what is missing is run again"
    )


def _cannot_write(path: Path, problem: OSError) -> CannotWrite:
    hint = f"name a folder that you may write and that has room with --out; try `ls -ld {path.parent}`"
    return CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=hint)
