"""Files at the rim: input that may be gzipped, output that is there as a whole or not at all."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from offpeak.errors import BadInput, CannotWrite

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LOOKED_AT_FOR_NUL = 64 * 1024


def read_bytes(path: Path, error: type[BadInput]) -> bytes:
    """Return the text of a plain or gzipped file, without a byte order mark; `error` if it cannot be read as text."""
    return _text_of(_raw_bytes(path, error), str(path), error)


def read_stdin(error: type[BadInput]) -> bytes:
    """Return the plain or gzipped text that is piped in; `error` if it is no text."""
    return _text_of(sys.stdin.buffer.read(), "standard input", error)


def _raw_bytes(path: Path, error: type[BadInput]) -> bytes:
    with reading(path, error):
        return path.read_bytes()


@contextmanager
def reading(path: Path | str, error: type[BadInput]) -> Iterator[None]:
    """Raise `error`, which names the file, where it cannot be read or unzipped."""
    try:
        yield
    except FileNotFoundError:
        raise error(f"{path}: no such file", hint=f"`ls {Path(path).parent}` shows what is there") from None
    except IsADirectoryError:
        raise error(f"{path}: is a directory", hint="name a file inside it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        state = "ends too early" if isinstance(problem, EOFError) else "is damaged"
        hint = "copy or download it again; `gzip -t FILE` tells whether it is whole"
        raise error(f"{path}: the gzip file {state}", hint=hint) from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}", hint=f"try `ls -l {path}`") from None


def _text_of(raw: bytes, name: str, error: type[BadInput]) -> bytes:
    with reading(name, error):
        text = gzip.decompress(raw) if raw.startswith(GZIP_MAGIC) else raw
    return beginning_of_text(text, name, error)


def beginning_of_text(text: bytes, name: str, error: type[BadInput]) -> bytes:
    """Return a text or its beginning without a byte order mark; `error` if it is binary."""
    if text.find(b"\0", 0, LOOKED_AT_FOR_NUL) >= 0:
        raise error(f"{name}: is a binary file", hint="plain text is expected, as it is or compressed with gzip")
    return text.removeprefix(BYTE_ORDER_MARK)


def check_writable(path: Path, *, example: str) -> None:
    """Raise BadInput if `path` cannot be written: better known before a long replay than after it.

    `example` is a file name for the hint where `path` is a directory.
    """
    if path.is_dir():
        raise BadInput(f"{path}: is a directory", hint=f"name a file, such as {path / example}")
    if path.exists() and not path.is_file():
        return
    try:
        # Nothing else tells of every reason at once; the file never has a name.
        TemporaryFile(dir=path.parent).close()
    except OSError as problem:
        hint = f"choose a folder that you may write; try `ls -ld {path.parent}`"
        if not path.parent.exists():
            hint = f"`mkdir -p {path.parent}` makes the folder"
        raise BadInput(f"{path}: cannot be written: {problem.strerror}", hint=hint) from None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing so that it holds all of the new content or still the old one; CannotWrite otherwise.

    A device or pipe (`/dev/stdout`) is written directly: there is nothing to replace.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as straight:
                yield straight
        else:
            with _renamed_when_done(path.resolve()) as file:
                yield file
    except OSError as problem:
        raise CannotWrite(f"{path}: cannot be written: {problem.strerror}", hint=_how_to_write(path)) from problem


@contextmanager
def _renamed_when_done(path: Path) -> Iterator[BinaryIO]:
    # Beside the target, because a rename is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _how_to_write(path: Path) -> str:
    if path.is_dir():
        return f"name a file, such as {path / 'result'}"
    if not path.parent.is_dir():
        return f"`mkdir -p {path.parent}` makes the folder"
    return f"choose a folder that you may write and that has room; try `ls -ld {path.parent}` and `df {path.parent}`"
