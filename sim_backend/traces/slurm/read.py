"""Reads Slurm's accounting as a job log: a dump of `sacct -P` (or `-p`), or the text file of jobcomp/filetxt.

jobcomp/filetxt writes a line of Key=Value pairs for each job that ended. Jobs that are called otherwise than by their
number, such as "12_4", keep that name; they are many where arrays are usual.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Trace
from offpeak.model.request import Request
from offpeak.model.zones import zone_text
from offpeak.plugin.slurm.requests import forget_parsed
from offpeak.sim_backend.traces.records import (
    CodedNames,
    Codes,
    ColumnStore,
    Records,
    note_on,
    request_classes,
    trace_of,
)
from offpeak.sim_backend.traces.slurm import fields as job_fields
from offpeak.sim_backend.traces.slurm import jobs as slurm_jobs
from offpeak.sim_backend.traces.slurm.runs import (
    REQUEST_COLUMNS,
    SlurmRow,
    count_of_other_clusters,
    request_of,
    runs_of,
)
from offpeak.text import counted, printable

HEADER_BYTES = 64 * 1024
EMPTY_HINT = f"-a asks for all users' jobs and -S for earlier ones than today's: `{job_fields.SACCT_COMMAND}`"
CUT_NOTE = "the last line is cut off and left out: the file was still being written"

FIRST_KEYS = re.compile(rb"^JobId=\d+ UserId=", re.MULTILINE)
# [^ ] is faster than \S; lines that are taken together by it are noticed by their number.
LINE = re.compile(
    rb"^JobId=(?P<JobIDRaw>\d+) UserId=(?P<User>[^(]*)\(\d+\) GroupId=[^(]*\(\d+\) Name=(?P<JobName>[^\x1f]*?) "
    rb"JobState=(?P<State>[^ ]+) Partition=(?P<Partition>[^ ]*) TimeLimit=(?P<TimelimitRaw>[^ ]*) "
    rb"StartTime=(?P<Start>[^ ]*) EndTime=(?P<End>[^ ]*) NodeList=(?P<NodeList>[^ ]*) NodeCnt=(?P<AllocNodes>\d+) "
    rb"ProcCnt=(?P<AllocCPUS>\d+) (?:[^ ]* )*?"
    rb"(?:ReservationName=(?P<Reservation>[^ ]*) )?(?:Tres=(?P<ReqTRES>[^ ]*) )?Account=(?P<Account>[^ ]*) "
    rb"(?:QOS=(?P<QOS>[^ ]*) )?(?:[^ ]* )*?"
    rb"SubmitTime=(?P<Submit>[^ ]*) EligibleTime=(?P<Eligible>\S*)"
    rb"(?: (?:Array|Het|Pack)JobId=(?P<JobID>\d+ \w+=\d+))?",
    re.MULTILINE,
)
DELIMITER = "\x1f"
LAYOUT = job_fields.SacctLayout(b"", DELIMITER, tuple(LINE.groupindex))
NUMBER_WITHIN = {" ArrayTaskId=": "_", " HetJobOffset=": "+", " PackJobOffset=": "+"}
EXPECTED = "a line has JobId=, UserId=, GroupId=, Name=, JobState=, ..., SubmitTime= and EligibleTime="


def sacct_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that a dump is; `name` is where it comes from, `zone` the clock of times without an offset.

    Steps are left out; a malformed line raises BadTrace with its number, `lenient` skips and counts such lines.
    Jobs that still run count with their run time so far; those that never ran are set aside in `Trace.rejected`.
    """
    head = text.head(HEADER_BYTES)
    if not head or (head.isspace() and all(block.isspace() for block in text.blocks(HEADER_BYTES))):
        raise BadTrace(f"{name}: is empty", hint=f"`{job_fields.SACCT_COMMAND}`")
    layout, source = job_fields.layout_of(head, name), job_fields.TextSource(name, lenient)
    parts = (job_fields.fields_of(block, layout, source) for block in job_fields.blocks(text))
    return trace_of_fields(parts, source, zone=zone, hint=EMPTY_HINT)


def looks_like_jobcomp(head: bytes) -> bool:
    """Tell whether a text that begins so is a log of jobcomp/filetxt."""
    return FIRST_KEYS.search(head) is not None


def jobcomp_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log; `name` is where it comes from, `zone` the clock of its times.

    A malformed line raises BadTrace with its number, `lenient` skips and counts such lines. Each run of a job that was
    requeued counts; jobs that never ran are set aside in `Trace.rejected`.
    """
    if not text.head(1):
        raise BadTrace(f"{name}: is empty", hint=EXPECTED)
    source = job_fields.TextSource(name, lenient)
    parts = (_fields_of(block, source) for block in job_fields.blocks(text))
    return trace_of_fields(parts, source, zone=zone, hint=EXPECTED)


def _fields_of(block: job_fields.Block, source: job_fields.TextSource) -> job_fields.Fields:
    """Return the lines as fields of `sacct`'s columns; BadTrace at one that is malformed, unless `lenient`."""
    rows = LINE.findall(block.text)
    if len(rows) == block.text.count(b"\n") + (not block.text.endswith(b"\n")):
        return job_fields.Fields(block, _table(rows), 0, is_cut=False)
    lines = block.text.splitlines()
    matches = [LINE.match(line) for line in lines]
    odd = [index for index, line in enumerate(lines) if not matches[index] and line.strip()]
    is_cut = odd[-1:] == [len(lines) - 1] and not block.text.endswith(b"\n")
    malformed = odd[:-1] if is_cut else odd
    for index in malformed:
        source.refuse(block.first_line + index, "is not a line of jobcomp/filetxt")
    filled = b"\n".join(line if match else b"" for line, match in zip(lines, matches, strict=True))
    rows = [match.groups(b"") for match in matches if match]
    return job_fields.Fields(replace(block, text=filled), _table(rows), len(malformed), is_cut)


def _table(rows: Sequence[tuple[bytes, ...]]) -> pa.Table:
    # Arrow parses a joined text faster than it takes over values one by one.
    table = job_fields.parsed(b"\n".join(map(DELIMITER.encode().join, rows)), LAYOUT)
    name = table["JobID"]
    for key, sign in NUMBER_WITHIN.items():
        name = pc.replace_substring(name, pattern=key, replacement=sign)
    return table.set_column(table.column_names.index("JobID"), "JobID", name)


class _Log:
    """The lines that were read, block by block: jobs as columns with their names as codes, and steps."""

    def __init__(self) -> None:
        self.jobs = ColumnStore()
        self.codes = {name: Codes(None if name == "State" else b"") for name in slurm_jobs.NAMES}
        self.job_ids = _OtherNames()
        self.steps: list[pa.Table] = []
        self.rows = 0
        self.skipped_lines = 0
        self.is_cut = False
        self.named_nodes = slurm_jobs.NamedNodes()
        self.clusters: set[bytes] = set()

    def add(self, lines: slurm_jobs.Lines) -> None:
        """Add the lines of the next block."""
        names = lines.jobs.column_names
        for name in (*REQUEST_COLUMNS, slurm_jobs.NODE_LIST):
            if name in names:
                self.codes.setdefault(name, Codes(b""))
        columns = {name: np.asarray(lines.jobs[name]) for name in names if name not in self.codes and name != "id"}
        codes = {name: codes.of(lines.jobs[name]) for name, codes in self.codes.items()}
        self.job_ids.add(lines.jobs["id"], len(self.jobs))
        self.jobs.append(columns | codes)
        if len(lines.steps) or not self.steps:
            self.steps.append(lines.steps)
        self.rows += lines.rows
        self.skipped_lines += lines.skipped_lines
        self.is_cut |= lines.is_cut
        self.named_nodes.add(lines.node_lists)
        self.clusters |= lines.clusters


class _OtherNames:
    """The names of jobs that differ from their number, with their rows."""

    def __init__(self) -> None:
        self._rows: list[Int64] = []
        self._names: list[pa.Array] = []

    def add(self, column: pa.ChunkedArray, first_row: int) -> None:
        """Add the names of the next rows, "" if there is none."""
        column = column.combine_chunks()
        rows = np.flatnonzero(pc.not_equal(pc.binary_length(column), 0))
        if len(rows):
            self._rows.append(rows + first_row)
            self._names.append(column.take(pa.array(rows)))

    def with_numbers(self, number: Int64) -> slurm_jobs.Ids:
        """Return the ids of all rows."""
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        return slurm_jobs.Ids(number, rows, pa.chunked_array(self._names, pa.string()))


def trace_of_fields(
    parts: Iterable[job_fields.Fields], source: job_fields.TextSource, *, zone: tzinfo, hint: str
) -> Trace:
    """Return the log of these lines, which are the fields of `sacct`'s columns.

    Raises BadTrace if no job is among them.
    """
    log = _Log()
    for part in parts:
        log.add(slurm_jobs.lines_of(part, source, zone=zone, first_row=log.rows))
    if not len(log.jobs):
        if log.skipped_lines:
            hint = "without --lenient the first of the lines that cannot be read is named"
        raise BadTrace(f"{source.name}: holds no jobs", hint=hint)
    of_several = f"{source.name}: holds the jobs of more than one cluster"
    hint = "dump one at a time, as with sacct --clusters=NAME, or keep the lines of one"
    if len(log.clusters) > 1:
        names = " and ".join(sorted(name.decode(errors="replace") for name in log.clusters))
        raise BadTrace(f"{of_several}: {printable(names)}", hint=hint)
    # Arrow keeps freed memory for further parsing.
    pa.default_memory_pool().release_unused()
    steps = pa.concat_tables(log.steps)
    ids = log.job_ids.with_numbers(log.jobs.pop("number"))
    step_names = _OtherNames()
    step_names.add(steps["id"], 0)
    number, step_number = slurm_jobs.numbered(ids, step_names.with_numbers(steps["number"].to_numpy().copy()))
    if count := count_of_other_clusters(number, log.jobs):
        why = "have the number of a job of another user, or of one that still ran"
        raise BadTrace(f"{of_several}: {counted(count, 'line')} {why}", hint=hint)
    runs = runs_of(log.jobs, number, log.codes["State"].names)
    energy_j, energy_notes = _energy(log.jobs, steps, runs.kept, number, step_number)
    log.jobs.release("row", "energy_j", "is_absurd", "State", "end_s")
    trace = trace_of(
        source.name,
        _records(log, runs.kept, ids, number, energy_j),
        time_zone=zone_text(zone),
        rejected=runs.rejected,
        skipped_lines=log.skipped_lines,
        notes=(*runs.notes, *energy_notes, *((CUT_NOTE,) if log.is_cut else ())),
    )
    return replace(trace, named_nodes=log.named_nodes.count, suspended=number[runs.suspended])


def _energy(
    jobs: ColumnStore, steps: pa.Table, kept: Int64, number: Int64, step_number: Int64
) -> tuple[Float64, tuple[str, ...]]:
    """Return the energies of the jobs that are kept [J], NaN where unknown, and what is noted of them."""
    energy_j, is_absurd = jobs.get("energy_j")[kept], jobs.get("is_absurd")[kept]
    if len(steps):
        summed_j = slurm_jobs.with_energy_of_steps(energy_j, number[kept], jobs.get("row")[kept], steps, step_number)
        columns = {name: jobs.get(name)[kept] for name in ("nodes", "processors", "runtime_s")}
        energy_j = slurm_jobs.plausible(summed_j, **slurm_jobs.room(columns))
        is_absurd = np.isnan(energy_j) & (is_absurd | ~np.isnan(summed_j))
    absurd = int(np.count_nonzero(is_absurd))
    return energy_j, note_on(absurd, "with an absurd energy reading: taken as not measured")


def _records(log: _Log, kept: Int64, ids: slurm_jobs.Ids, number: Int64, energy_j: Float64) -> Records:
    """Return the jobs that are kept; the columns of the log are given up."""
    jobs = log.jobs

    def column(name: str) -> Int64:
        whole = jobs.pop(name)
        return whole if len(kept) == len(whole) else whole[kept]

    def coded(name: str) -> CodedNames:
        return log.codes.pop(name).renumbered(column(name))

    nodes, processors, queue = column("nodes"), column("processors"), coded("Partition")
    texts = {name: (column(name), log.codes.pop(name).names) for name in REQUEST_COLUMNS if name in log.codes}
    request, requests = _requests(texts, queue, nodes, processors)
    priority = column(slurm_jobs.PRIORITY) if slurm_jobs.PRIORITY in jobs else None
    # Of one number that bears several names, that of the last job that ran counts.
    ran = np.zeros(len(number), bool)
    ran[kept] = True
    ran = ran[ids.named]
    in_order = np.concatenate([np.flatnonzero(~ran), np.flatnonzero(ran)])
    other_names = job_names(number[ids.named[in_order]], ids.name.take(pa.array(in_order)).combine_chunks())
    return Records(
        job_id=number if len(kept) == len(number) else number[kept],
        queued_s=column("queued_s"),
        start_s=column("start_s"),
        runtime_s=column("runtime_s"),
        estimate_s=np.maximum(limit_s := column("limit_s"), 0, out=limit_s),
        nodes=nodes,
        processors=processors,
        user=coded("User"),
        group=coded("Account"),
        queue=queue,
        application=coded("JobName"),
        energy_j=energy_j,
        job_names=other_names,
        request=request,
        requests=requests,
        array=_arrays(ids, number)[kept] if len(ids.named) else None,
        node=coded(slurm_jobs.NODE_LIST) if slurm_jobs.NODE_LIST in log.codes else None,
        priority=priority if priority is not None and (priority >= 0).any() else None,
    )


def _requests(
    texts: Mapping[str, tuple[Int64, tuple[bytes, ...]]], queue: CodedNames, nodes: Int64, processors: Int64
) -> tuple[Int64 | None, tuple[Request, ...]]:
    """Return the class of each job; `texts` are the columns of REQUEST_COLUMNS that there are, as codes of names."""
    if texts.keys().isdisjoint(("ReqTRES", "AllocTRES")):
        return None, ()

    def of_row(row: tuple[int, ...]) -> Request | None:
        partition, node_count, cpus, *codes = row
        shown = zip(texts.items(), codes, strict=True)
        fields = {name: names[code] for (name, (_, names)), code in shown if code >= 0}
        return request_of(SlurmRow(fields, queue.names[partition] if partition >= 0 else "", node_count, cpus))

    columns = (queue.code, nodes, processors, *(code for code, _ in texts.values()))
    request, requests = request_classes(columns, of_row)
    forget_parsed()
    return (request, requests) if requests else (None, ())


def _arrays(ids: slurm_jobs.Ids, number: Int64) -> Int64:
    """Return the number of the array of which each job is a task, -1 for none."""
    array = np.full(len(number), -1)
    found = pc.struct_field(pc.extract_regex(ids.name.combine_chunks(), pattern=r"^(?P<array>\d{1,18})_"), "array")
    array[ids.named] = np.asarray(pc.fill_null(found.cast(pa.int64()), -1))
    return array


@dataclass(frozen=True, eq=False)
class JobNames(Mapping[int, str]):
    """The name of each number; a dict of a million would take a quarter of a gigabyte. `number` is sorted."""

    number: Int64
    name: pa.StringArray

    def __getitem__(self, number: int) -> str:
        place = int(np.searchsorted(self.number, number))
        if place == len(self.number) or self.number[place] != number:
            raise KeyError(number)
        return str(self.name[place])

    def __iter__(self) -> Iterator[int]:
        return iter(self.number.tolist())

    def __len__(self) -> int:
        return len(self.number)


def job_names(number: Int64, name: pa.Array) -> JobNames:
    """Return the names by number; of one number's names the last."""
    order = np.argsort(number, kind="stable")
    is_last = np.diff(number[order], append=-1) != 0
    return JobNames(number[order][is_last], name.take(pa.array(order[is_last])))
