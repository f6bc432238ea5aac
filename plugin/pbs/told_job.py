"""A job as a PBS server told of it: what all schedulers have in common, and what it asks for in PBS's own words."""

from typing import NamedTuple

from plugin.scheduler.job import Job


class ToldJob(NamedTuple):
    """`request` is in the words of `chunks_of`, each chunk on a node of its own if `apart`.

    `rank` is its place in the server's own queue, smaller first.
    """

    job: Job
    request: str
    apart: bool
    rank: int
