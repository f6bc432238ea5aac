"""A text that may be long, read in blocks of whole lines: from memory, or from files that may be gzipped."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from offpeak.errors import BadInput
from offpeak.files import GZIP_MAGIC, beginning_of_text, read_bytes, reading

CHUNK_BYTES = 1 << 18
GZIP = 31  # zlib's `wbits` for a text with gzip's header and check sum

Chunks = Callable[[], Iterator[bytes]]


class LongText:
    """Texts one after the other, of which only a block is in memory unless they were; each pass begins anew.

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
    """Unzip one or more gzip streams, with zeros behind each; EOFError where the last one has no end."""
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
