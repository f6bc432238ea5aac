"""Reads a dump of `sacct -P` (or `-p`): the jobs that Slurm's database remembers."""

from datetime import tzinfo

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import Trace
from sim_backend.traces.slurm.blocks import Source, blocks
from sim_backend.traces.slurm.columns import SACCT_COMMAND, layout_of
from sim_backend.traces.slurm.fields import fields_of
from sim_backend.traces.slurm.trace import trace_of_fields

HEADER_BYTES = 64 * 1024
EMPTY_HINT = f"-a asks for all users' jobs and -S for earlier ones than today's: `{SACCT_COMMAND}`"


def sacct_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that a dump is; `name` is where it comes from, `zone` the clock of times without an offset.

    Steps are left out; a malformed line raises BadTrace with its number, `lenient` skips and counts such lines.
    Jobs that still run count with their run time so far; those that never ran are set aside in `Trace.rejected`.
    """
    head = text.head(HEADER_BYTES)
    if not head or (head.isspace() and all(block.isspace() for block in text.blocks(HEADER_BYTES))):
        raise BadTrace(f"{name}: is empty", hint=f"`{SACCT_COMMAND}`")
    layout, source = layout_of(head, name), Source(name, lenient)
    parts = (fields_of(block, layout, source) for block in blocks(text))
    return trace_of_fields(parts, source, zone=zone, hint=EMPTY_HINT)
