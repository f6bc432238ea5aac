"""What a job's owner sees of us: the job's comment, until the scheduler writes its own in its next cycle."""

from collections.abc import Mapping

from plugin.pbs.ask import PbsCommands
from plugin.pbs.job_number import strange
from plugin.pbs.told import one_line, tell_by_value
from plugin.scheduler.node import OURS


def tell_owners(commands: PbsCommands, comments: Mapping[str, str]) -> dict[str, str]:
    """Write for each job what its owner is to see, "" takes it away; return why not, by job."""
    refused = strange(comments)
    # An empty comment is none that PBS takes.
    texts = {
        job: f'comment="{OURS}: {one_line(text) or "nothing more to say"}"'
        for job, text in comments.items()
        if job not in refused
    }
    return refused | tell_by_value(commands, "qalter", "-W", texts)
