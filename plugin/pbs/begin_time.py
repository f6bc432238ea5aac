"""The time before which a job does not start, as `qalter -a` takes it: the server lets the job go by itself.

A hold would keep it for ever if the agent died before it let go, and could not be told from its owner's or an admin's.
The server puts a job with such a time into the state W, which the scheduler does not look at.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from plugin.pbs.ask import PbsCommands
from plugin.pbs.job_number import strange
from plugin.pbs.told import tell_by_value


def date_time(at_s: int) -> str:
    """Return a Unix second as CCYYMMDDhhmm.SS in Greenwich's time, which is the clock of our commands."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d%H%M.%S")


def defer_jobs(commands: PbsCommands, begin_s: Mapping[str, int], now_s: int) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    refused = strange(begin_s)
    # A time that is over ends a wait; PBS takes none of 1970.
    times = {job: date_time(max(at_s, now_s)) for job, at_s in begin_s.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-a", times)
