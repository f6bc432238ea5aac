"""The columns of a dump of Slurm's `sacct`: which are needed, how they are separated, and how to ask for them."""

import re
from dataclasses import dataclass

from offpeak.errors import BadTrace
from plugin.slurm.accounting import SACCT_COLUMNS

SACCT_COMMAND = f"sacct -a -D -X -P -S now-30days -o {','.join(SACCT_COLUMNS)} > sacct.txt"

# Columns that can stand for each other, the best one first.
IDS = ("JobIDRaw", "JobID")
TIMES = ("Submit", "Eligible", "Start", "End")
RUN_TIMES = ("ElapsedRaw", "Elapsed")
LIMITS = ("TimelimitRaw", "Timelimit")
PROCESSORS = ("AllocCPUS", "NCPUS", "AllocTRES", "ReqTRES")
NODES = ("AllocNodes", "NNodes", "AllocTRES", "ReqTRES")
ENERGIES = ("ConsumedEnergyRaw", "ConsumedEnergy")
NEEDED = (IDS, ("Submit",), ("Start",), ("End", *RUN_TIMES), ("State",), (*PROCESSORS, *NODES))
USED = frozenset((*SACCT_COLUMNS, *RUN_TIMES, *LIMITS, *PROCESSORS, *NODES, *ENERGIES))

FREE_TEXT = frozenset(("JobName", "Comment", "AdminComment", "SubmitLine"))
TELLING = 2  # a line that names so many used columns is a header
DISABLED = b"Slurm accounting storage is disabled"
MESSAGE = re.compile(rb"sacct: |slurm_\w+: |" + DISABLED)


@dataclass(frozen=True)
class Layout:
    """How the lines of a dump are made: `columns` in order, the last one "" where each line ends in a delimiter."""

    header: bytes
    delimiter: str
    columns: tuple[str, ...]

    @property
    def ends_in_free_text(self) -> bool:
        """Whether surplus fields of a line can only belong to its last column."""
        return next(name for name in reversed(self.columns) if name) in FREE_TEXT

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(name for name in self.columns if name in USED))


def looks_like_sacct(head: bytes) -> bool:
    """Say whether a text that begins so is a dump of `sacct`, or its complaint in place of one."""
    header = _first_line(head)
    return bool(MESSAGE.match(header)) or len(USED.intersection(_split(header)[1])) >= TELLING


def layout_of(text: bytes, name: str) -> Layout:
    """Return the layout that the first line tells; BadTrace if it is no header or needed columns are missing."""
    header = _first_line(text)
    if MESSAGE.match(header):
        disabled = "sacct needs slurmdbd; a log of jobcomp/filetxt, which does not, is read too"
        raise BadTrace(
            f"{name}:1: is a message of sacct, not its answer: {header[:80].decode(errors='replace')!r}",
            hint=disabled if DISABLED in header else f"`{SACCT_COMMAND}`",
        )
    delimiter, columns = _split(header)
    if delimiter == " ":
        raise BadTrace(f"{name}: is laid out for people, its values may be cut off", hint=f"`{SACCT_COMMAND}`")
    missing = [names[0] for names in NEEDED if not set(names) & set(columns)]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise BadTrace(f"{name}:1: has no column{plural} {', '.join(missing)}", hint=f"`{SACCT_COMMAND}`")
    return Layout(header, delimiter, columns)


def first_of(names: tuple[str, ...], present: tuple[str, ...]) -> str | None:
    """Return the best of the columns that can stand for each other; None if none is present."""
    return next((name for name in names if name in present), None)


def _first_line(text: bytes) -> bytes:
    return text[: text.find(b"\n") + 1 or None].rstrip(b"\r\n")


def _split(header: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter, which is whatever stands between the names, and the names."""
    line = header.decode(errors="replace")
    between = set(re.sub("[A-Za-z0-9]", "", line))
    delimiter = between.pop() if len(between) == 1 else "|"
    return delimiter, tuple(line.split(delimiter))
