"""The last good series of a feed on disk: readable with `less`, whole or not at all."""

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offpeak.errors import CannotWrite, OffpeakError
from offpeak.files import replacing
from offpeak.model.step_series import Series
from predictors.feeds.condition import Condition, Trouble

MARK = b"# offpeak feed cache 1, crc32 "


@dataclass(frozen=True, eq=False)
class Kept:
    """A good series and when it was fetched [Unix s]."""

    series: Series
    fetched_s: int


def write_kept(path: Path, kept: Kept) -> Trouble | None:
    """Replace the file; what hinders that is said, and what was there before stays."""
    text = _text(kept)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(MARK + b"%08x\n" % zlib.crc32(text) + text)
    except (OSError, CannotWrite) as error:
        return Trouble(Condition.CACHE_UNWRITABLE, "cache", f"{path}: {error}")
    return None


def _text(kept: Kept) -> bytes:
    series = kept.series
    values = (repr(value) if known else "" for value, known in zip(series.value.tolist(), series.known, strict=True))
    rows = "".join(f"{start_s},{value}\n" for start_s, value in zip(series.start_s.tolist(), values, strict=True))
    head = f"source,{series.source}\nunit,{series.unit}\nfetched_s,{kept.fetched_s}\nend_s,{series.end_s}\n"
    return f"{head}start_s,value\n{rows}".encode()


def read_kept(path: Path) -> Kept | Trouble | None:
    """Return what was kept, None if nothing was yet."""
    try:
        mark, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        return Trouble(Condition.CACHE_DAMAGED, "cache", f"{path}: {error.strerror}")
    if mark != MARK + b"%08x" % zlib.crc32(text):
        return Trouble(Condition.CACHE_DAMAGED, "cache", f"{path}: its checksum is wrong")
    try:
        return _kept(text.decode().split("\n")[:-1])
    except (ValueError, IndexError, OffpeakError) as error:
        return Trouble(Condition.CACHE_DAMAGED, "cache", f"{path}: {error}")


def _kept(lines: list[str]) -> Kept:
    source, unit, fetched_s, end_s = (line.split(",", 1)[1] for line in lines[:4])
    rows = [line.split(",") for line in lines[5:]]
    start = np.array([int(start_s) for start_s, _ in rows], np.int64)
    value = np.array([float(value) if value else np.nan for _, value in rows])
    return Kept(Series(start, int(end_s), value, unit, source), int(fetched_s))
