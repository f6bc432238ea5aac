"""Reads a job log of any format: what is in the file decides, not its name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import Protocol

from offpeak.errors import BadTrace
from offpeak.files import read_stdin
from offpeak.jobs import Trace
from offpeak.long_text import LongText, text_of_file
from plugin.pbs.history import accounting_text
from sim_backend.traces.gwf.read import gwf_trace, looks_like_gwf
from sim_backend.traces.pbs.read import looks_like_pbs, pbs_trace
from sim_backend.traces.period import last_days
from sim_backend.traces.slurm.columns import looks_like_sacct
from sim_backend.traces.slurm.jobcomp import jobcomp_trace, looks_like_jobcomp
from sim_backend.traces.slurm.sacct import sacct_trace
from sim_backend.traces.swf.read import swf_trace

LOOKED_AT = 64 * 1024
SUFFIXES = (".gz", ".swf", ".gwf", ".txt", ".log")


class ReadText(Protocol):
    """A reader of one format."""

    def __call__(self, text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
        """Return the log; `zone` is the clock of times without an offset."""


@dataclass(frozen=True)
class LogFormat:
    """A format of job logs: how its beginning looks, and what reads it.

    `is_cut_out`: such a log holds the jobs that ran within some days, not all that were submitted in them.
    """

    name: str
    looks_like: Callable[[bytes], bool]
    read: ReadText
    is_cut_out: bool


FORMATS = (
    LogFormat("sacct", looks_like_sacct, sacct_trace, is_cut_out=True),
    LogFormat("Slurm jobcomp", looks_like_jobcomp, jobcomp_trace, is_cut_out=True),
    LogFormat("PBS accounting", looks_like_pbs, pbs_trace, is_cut_out=True),
    LogFormat("GWF", looks_like_gwf, gwf_trace, is_cut_out=False),
)
"""Asked in this order; what none of them knows is read as SWF, whose messages say what is wrong with it."""


def read_log(source: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Read a file, "-" for standard input, or a folder of PBS accounting files, one a day.

    BadTrace as the formats' readers raise it, or if there is nothing to read.
    """
    if source == "-":
        return trace_of_text(LongText(read_stdin(BadTrace)), "standard input", lenient=lenient, zone=zone)
    path = Path(source)
    text = accounting_text(path) if path.is_dir() else text_of_file(path, BadTrace)
    return replace(trace_of_text(text, source, lenient=lenient, zone=zone), name=_short_name(path))


def trace_of_text(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that the text is; `name` says in messages where it comes from."""
    head = text.head(LOOKED_AT)
    for each in FORMATS:
        if each.looks_like(head):
            if each.is_cut_out:
                return last_days(each.read(text, name, lenient=lenient, zone=zone), None)
            return each.read(text, name, lenient=lenient, zone=zone)
    return swf_trace(text, name, lenient=lenient)


def _short_name(path: Path) -> str:
    name = path.name or str(path)
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name
