"""What a job's owner sees of us: the job's comment, until the scheduler writes its own in its next cycle."""

from collections.abc import Callable, Iterable, Mapping

from plugin.pbs.ask import PbsCommands
from plugin.pbs.job_number import strange
from plugin.pbs.told import one_line, tell_by_value
from plugin.pbs.told_job import ToldJob
from plugin.scheduler.node import OURS

NOTHING = "nothing more to say"
"""PBS takes no empty comment."""


def tell_owners(
    commands: PbsCommands, comments: Mapping[str, str], jobs: Callable[[], Iterable[ToldJob]]
) -> dict[str, str]:
    """Write for each job what its owner is to see; return why not, by job.

    "" takes our comment away, where the job still has one: what the scheduler has written since stays.
    """
    refused = strange(comments)
    texts = {
        job: f'comment="{OURS}: {one_line(text)}"' for job, text in comments.items() if text and job not in refused
    }
    if any(not text for text in comments.values()):
        ours = {each.job.job_id for each in jobs() if each.job.reason.startswith(f"{OURS}:")}
        texts |= {job: f'comment="{NOTHING}"' for job, text in comments.items() if not text and job in ours}
    return refused | tell_by_value(commands, "qalter", "-W", texts)
