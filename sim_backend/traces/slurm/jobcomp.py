"""Reads the text file of Slurm's jobcomp/filetxt plugin: a line of Key=Value pairs for each job that ended."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import Trace
from sim_backend.traces.slurm.blocks import Block, Source, blocks
from sim_backend.traces.slurm.columns import Layout
from sim_backend.traces.slurm.fields import Fields, parsed
from sim_backend.traces.slurm.trace import trace_of_fields

FIRST_KEYS = re.compile(rb"^JobId=\d+ UserId=", re.MULTILINE)
# [^ ] is faster than \S; lines that are taken together by it are noticed by their number.
LINE = re.compile(
    rb"^JobId=(?P<JobIDRaw>\d+) UserId=(?P<User>[^(]*)\(\d+\) GroupId=[^(]*\(\d+\) Name=(?P<JobName>[^\x1f]*?) "
    rb"JobState=(?P<State>[^ ]+) Partition=(?P<Partition>[^ ]*) TimeLimit=(?P<TimelimitRaw>[^ ]*) "
    rb"StartTime=(?P<Start>[^ ]*) EndTime=(?P<End>[^ ]*) NodeList=[^ ]* NodeCnt=(?P<AllocNodes>\d+) "
    rb"ProcCnt=(?P<AllocCPUS>\d+) (?:[^ ]* )*?Account=(?P<Account>[^ ]*) (?:[^ ]* )*?"
    rb"SubmitTime=(?P<Submit>[^ ]*) EligibleTime=(?P<Eligible>\S*)"
    rb"(?: (?:Array|Het|Pack)JobId=(?P<JobID>\d+ \w+=\d+))?",
    re.MULTILINE,
)
DELIMITER = "\x1f"
LAYOUT = Layout(b"", DELIMITER, tuple(LINE.groupindex))
NUMBER_WITHIN = {" ArrayTaskId=": "_", " HetJobOffset=": "+", " PackJobOffset=": "+"}
EXPECTED = "a line has JobId=, UserId=, GroupId=, Name=, JobState=, ..., SubmitTime= and EligibleTime="


def looks_like_jobcomp(head: bytes) -> bool:
    """Say whether a text that begins so is a log of jobcomp/filetxt."""
    return FIRST_KEYS.search(head) is not None


def jobcomp_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log; `name` is where it comes from, `zone` the clock of its times.

    A malformed line raises BadTrace with its number, `lenient` skips and counts such lines. Each run of a job that was
    requeued counts; jobs that never ran are set aside in `Trace.rejected`.
    """
    if not text.head(1):
        raise BadTrace(f"{name}: is empty", hint=EXPECTED)
    source = Source(name, lenient)
    parts = (_fields_of(block, source) for block in blocks(text))
    return trace_of_fields(parts, source, zone=zone, hint=EXPECTED)


def _fields_of(block: Block, source: Source) -> Fields:
    """Return the lines as fields of `sacct`'s columns; BadTrace at one that is malformed, unless `lenient`."""
    rows = LINE.findall(block.text)
    if len(rows) == block.text.count(b"\n") + (not block.text.endswith(b"\n")):
        return Fields(block, _table(rows), 0, is_cut=False)
    lines = block.text.splitlines()
    matches = [LINE.match(line) for line in lines]
    odd = [index for index, line in enumerate(lines) if not matches[index] and line.strip()]
    is_cut = odd[-1:] == [len(lines) - 1] and not block.text.endswith(b"\n")
    malformed = odd[:-1] if is_cut else odd
    for index in malformed:
        source.refuse(block.first_line + index, "is no line of jobcomp/filetxt")
    filled = b"\n".join(line if match else b"" for line, match in zip(lines, matches, strict=True))
    rows = [match.groups(b"") for match in matches if match]
    return Fields(replace(block, text=filled), _table(rows), len(malformed), is_cut)


def _table(rows: Sequence[tuple[bytes, ...]]) -> pa.Table:
    # Arrow parses a joined text faster than it takes over values one by one.
    table = parsed(b"\n".join(map(DELIMITER.encode().join, rows)), LAYOUT)
    name = table["JobID"]
    for key, sign in NUMBER_WITHIN.items():
        name = pc.replace_substring(name, pattern=key, replacement=sign)
    return table.set_column(table.column_names.index("JobID"), "JobID", name)
