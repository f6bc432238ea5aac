"""Reads a dump of `sacct -P` (or `-p`): the jobs that Slurm's database remembers."""

from datetime import tzinfo

from offpeak.errors import BadTrace
from offpeak.jobs import Trace
from sim_backend.traces.slurm.blocks import Source, blocks
from sim_backend.traces.slurm.columns import SACCT_COMMAND, layout_of
from sim_backend.traces.slurm.fields import fields_of
from sim_backend.traces.slurm.trace import trace_of_fields

EMPTY_HINT = f"-a asks for all users' jobs and -S for earlier ones than today's: `{SACCT_COMMAND}`"


def sacct_trace(text: bytes, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that a dump is; `name` is where it comes from, `zone` the clock of times without an offset.

    Steps are left out; a malformed line raises BadTrace with its number, `lenient` skips and counts such lines.
    Jobs that still run count with their run time so far; those that never ran are set aside in `Trace.rejected`.
    """
    if not text or text.isspace():
        raise BadTrace(f"{name}: is empty", hint=f"`{SACCT_COMMAND}`")
    layout, source = layout_of(text, name), Source(name, lenient)
    parts = (fields_of(block, layout, source) for block in blocks(text))
    return trace_of_fields(parts, source, zone=zone, hint=EMPTY_HINT)
