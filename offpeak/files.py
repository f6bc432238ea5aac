"""Files at the edge of the program: input that may be gzipped, output that is complete or absent.

`read_bytes` reads a whole text. `LongText` reads a text of any length in blocks of whole lines, from memory or from
files. `replacing` writes a file that holds all of the new content or still the old one.
"""

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from offpeak.errors import BadInput, CannotWrite

GZIP_MAGIC = b"\x1f\x8b"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
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
    if text.startswith(UTF_16_MARKS):
        # As Excel and PowerShell write text.
        text = text.decode("utf-16", errors="replace").encode()
    return beginning_of_text(text, name, error)


def beginning_of_text(text: bytes, name: str, error: type[BadInput]) -> bytes:
    """Return a text or its beginning without a byte order mark; `error` if it is binary."""
    if text.startswith(UTF_16_MARKS):
        raise error(f"{name}: is UTF-16 text", hint="`iconv -f UTF-16 -t UTF-8 FILE > NEW` converts it")
    if text.find(b"\0", 0, LOOKED_AT_FOR_NUL) >= 0:
        raise error(f"{name}: is a binary file", hint="plain text is expected, as it is or compressed with gzip")
    return text.removeprefix(BYTE_ORDER_MARK)


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder. Raises OSError if the caller may not know.

    `Path.exists` returns False then, since Python 3.14.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_writable(path: Path, *, example: str) -> None:
    """Raise BadInput if `path` cannot be written, before a long replay; `example` names a file in a directory."""
    if path.is_dir():
        raise BadInput(f"{path}: is a directory", hint=f"name a file, such as {path / example}")
    if path.exists() and not path.is_file():
        return
    try:
        # Only an attempt covers every reason; the temporary file has no name.
        TemporaryFile(dir=path.parent).close()
    except OSError as problem:
        raise BadInput(f"{path}: cannot be written: {problem.strerror}", hint=_how_to_write(path)) from None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing so that it holds all of the new content or still the old one. Raises CannotWrite
    otherwise.

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
    if not path.parent.exists():
        return f"`mkdir -p {path.parent}` makes the folder"
    return f"choose a folder that you may write and that has room; try `ls -ld {path.parent}` and `df {path.parent}`"


CHUNK_BYTES = 1 << 18
GZIP = 31  # zlib's `wbits` for a text with gzip's header and check sum

Chunks = Callable[[], Iterator[bytes]]


class LongText:
    """A sequence of texts, read block by block unless they are in memory; each pass starts at the beginning.

    A text but the last that ends within a line gets an end of line. A pass raises the error of `text_of_file`.
    """

    def __init__(self, *texts: bytes | Chunks) -> None:
        self._texts = tuple(partial(_slices, text) if isinstance(text, bytes) else text for text in texts)

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield blocks of whole lines of about `size` bytes; the last line may lack its end."""
        held: list[bytes] = []
        length = 0
        for chunk in self.chunks():
            held.append(chunk)
            length += len(chunk)
            if length < size or not (end := chunk.rfind(b"\n") + 1):
                continue
            held[-1] = chunk[:end]
            yield b"".join(held)
            held = [chunk[end:]]
            length = len(held[0])
        if length:
            yield b"".join(held)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines with their ends."""
        for block in self.blocks(CHUNK_BYTES):
            yield from BytesIO(block)

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes."""
        head = b""
        for chunk in self.chunks():
            head += chunk
            if len(head) >= size:
                break
        return head[:size]

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in pieces, none of them empty."""
        last = b""
        for text in self._texts:
            if last and not last.endswith(b"\n"):
                yield b"\n"
            last = b""
            for chunk in filter(None, text()):
                last = chunk
                yield chunk


def text_of_file(path: Path, error: type[BadInput]) -> LongText:
    """Return the text of a plain or gzipped file, without a byte order mark; `error` if it cannot be read as text.

    What is appended to the file after this call is left out. A pipe can be read once only: its text is held in memory.
    """
    with reading(path, error):
        if path.is_file():
            path.open("rb").close()
            return LongText(partial(_chunks_of_file, path, path.stat().st_size, error))
    return LongText(read_bytes(path, error))


def joined(texts: list[LongText]) -> LongText:
    """Return the texts one after the other as one."""
    return LongText(*(text.chunks for text in texts))


def _slices(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), CHUNK_BYTES):
        yield text[start : start + CHUNK_BYTES]


def _chunks_of_file(path: Path, size: int, error: type[BadInput]) -> Iterator[bytes]:
    with reading(path, error), path.open("rb") as file:
        is_zipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        file.seek(0)
        chunks = _unzipped(_raw_chunks(file, size)) if is_zipped else _raw_chunks(file, size)
        yield beginning_of_text(next(chunks, b""), str(path), error)
        yield from chunks


def _raw_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while chunk := file.read(min(CHUNK_BYTES, size)):
        size -= len(chunk)
        yield chunk


def _unzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unzip one or more gzip streams, with zeros behind each. Raises EOFError if the last one has no end."""
    inflate = zlib.decompressobj(GZIP)
    for zipped in chunks:
        while zipped:
            if inflate.eof:
                zipped = zipped.lstrip(b"\0")
                if not zipped:
                    break
                inflate = zlib.decompressobj(GZIP)
            yield inflate.decompress(zipped, CHUNK_BYTES)
            # Behind the end of a stream zlib keeps what follows in both of its tails.
            while inflate.unconsumed_tail and not inflate.eof:
                yield inflate.decompress(inflate.unconsumed_tail, CHUNK_BYTES)
            zipped = inflate.unused_data
    if not inflate.eof:
        raise EOFError
