"""Changes to OpenPBS's jobs: what is added to their place in the order, and when they may start."""

from collections.abc import Mapping

from plugin.openpbs.resources import BEGIN, PRIO, SCALE
from plugin.pbs.ask import PbsCommands
from plugin.pbs.job_number import strange
from plugin.pbs.told import tell_by_value


def rank_jobs(commands: PbsCommands, offsets: Mapping[str, int]) -> dict[str, str]:
    """Set what is added to the site's formula; return why not, by job."""
    return _set(commands, {job: f"{PRIO}={value / SCALE:.3f}" for job, value in offsets.items()})


def defer_jobs(commands: PbsCommands, begin_s: Mapping[str, int]) -> dict[str, str]:
    """Let each job start at its Unix second at the earliest, now where that is 0; return why not, by job."""
    return _set(commands, {job: f"{BEGIN}={at_s}" for job, at_s in begin_s.items()})


def _set(commands: PbsCommands, values: Mapping[str, str]) -> dict[str, str]:
    refused = strange(values)
    wanted = {job: value for job, value in values.items() if job not in refused}
    return refused | tell_by_value(commands, "qalter", "-l", wanted)
