"""Reads a job log of any format, which is detected by content, not by name."""

from dataclasses import replace
from datetime import tzinfo
from pathlib import Path

from offpeak.errors import BadTrace
from offpeak.files import LongText, read_stdin, text_of_file
from offpeak.model.jobs import Trace
from offpeak.plugin.pbs.accounting import accounting_text
from offpeak.sim_backend.traces.filters import last_days
from offpeak.sim_backend.traces.gwf import gwf_trace, looks_like_gwf
from offpeak.sim_backend.traces.pbs.read import looks_like_pbs, pbs_trace
from offpeak.sim_backend.traces.slurm.fields import SACCT_COMMAND, looks_like_sacct
from offpeak.sim_backend.traces.slurm.read import jobcomp_trace, looks_like_jobcomp, sacct_trace
from offpeak.sim_backend.traces.swf.lines import NUMBER
from offpeak.sim_backend.traces.swf.read import EXPECTED as SWF_LINES
from offpeak.sim_backend.traces.swf.read import swf_trace

LOOKED_AT = 64 * 1024
SHOWN = 60
SUFFIXES = (".gz", ".swf", ".gwf", ".txt", ".log")


CUT_OUT_FORMATS = ((looks_like_sacct, sacct_trace), (looks_like_jobcomp, jobcomp_trace), (looks_like_pbs, pbs_trace))
"""The test for the head of a log, and its reader. These have the jobs that ran within some days, not all jobs that were
submitted in them."""

READ = "offpeak reads `sacct -P` output, Slurm's jobcomp/filetxt, PBS accounting, SWF (18 numbers in a line) and GWF"
SWF_BEGINS = 4
"""A line of SWF begins with so many numbers: the job, its submission, its wait and its run time."""


def read_log(source: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Read a file, "-" for standard input, or a folder of PBS accounting files, one a day.

    Raises BadTrace like the formats' readers, or if there is nothing to read.
    """
    if source == "-":
        return trace_of_text(LongText(read_stdin(BadTrace)), "standard input", lenient=lenient, zone=zone)
    path = Path(source)
    text = accounting_text(path) if path.is_dir() else text_of_file(path, BadTrace)
    name = path.name or str(path)
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return replace(trace_of_text(text, source, lenient=lenient, zone=zone), name=name)


def trace_of_text(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Parse a log; `name` is its source for messages."""
    head = text.head(LOOKED_AT)
    if not head:
        failed = "an empty file of sacct or PBS means that the command which wrote it failed"
        raise BadTrace(f"{name}: is empty", hint=f"{SWF_LINES}; {failed}")
    for looks_like, read in CUT_OUT_FORMATS:
        if looks_like(head):
            return last_days(read(text, name, lenient=lenient, zone=zone), None)
    if looks_like_gwf(head):
        return gwf_trace(text, name, lenient=lenient, zone=zone)
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip() and line.lstrip()[0] != ";"]
    if lines and not any(_looks_like_swf(line.split()) for line in lines):
        what, remedy = _guess_kind(lines[0])
        raise BadTrace(f"{name}: is not a job log: {what}", hint=remedy or READ)
    return swf_trace(text, name, lenient=lenient)


def _looks_like_swf(fields: list[str]) -> bool:
    begin = [field.encode() for field in fields[:SWF_BEGINS]]
    return len(begin) == SWF_BEGINS and all(map(NUMBER.fullmatch, begin))


def _guess_kind(line: str) -> tuple[str, str]:
    """Guess the kind of a file by its first line; return a description, and how to get a log, "" if unknown."""
    if line.lstrip().startswith("<"):
        return "it begins like a page of HTML or XML", ""
    if line.lstrip().startswith(("{", "[")):
        return "it begins like JSON", f"what is read: `{SACCT_COMMAND}`"
    if looks_like_sacct(line.replace('"', "").encode()):
        return "the names of its columns are in quotation marks", "`tr -d '\"'` takes them off"
    if line.count("|") >= SWF_BEGINS:
        return "it lacks the line with the names of the columns", f"without --noheader: `{SACCT_COMMAND}`"
    for separator, named in ((";", "semicolons"), (",", "commas"), ("\t", "tabs")):
        fields = line.split(separator)
        if _looks_like_swf(fields):
            return f"{named} separate its numbers", f"blanks do in SWF: `tr '{separator}' ' '` writes them"
        if len(fields) > 1:
            return f"it is a table separated by {named}: {line[:SHOWN]!r}", ""
    return f"its first line is {line[:SHOWN]!r}", ""
