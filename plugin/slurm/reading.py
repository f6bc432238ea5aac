"""What is read of Slurm at once, by whatever way."""

from typing import NamedTuple

from plugin.scheduler.job import Job
from plugin.scheduler.node import Node, Reservation


class Reading(NamedTuple):
    """All jobs, also those that have just ended, all nodes and all reservations."""

    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    reservations: tuple[Reservation, ...]
