"""The schedulers by their names: what `scheduler` below [agent] chooses."""

from collections.abc import Callable

from offpeak.settings import Settings
from plugin.openpbs.scheduler import OpenPbsScheduler
from plugin.scheduler.port import Scheduler
from plugin.slurm.scheduler import SlurmScheduler
from plugin.torque.scheduler import TorqueScheduler

SCHEDULERS: tuple[tuple[str, Callable[[Settings], Scheduler]], ...] = (
    ("slurm", lambda settings: SlurmScheduler(settings.slurm)),
    ("torque", lambda settings: TorqueScheduler(settings.pbs)),
    ("openpbs", lambda settings: OpenPbsScheduler(settings.pbs)),
)


def scheduler_of(settings: Settings) -> Scheduler:
    """Return the site's scheduler."""
    return dict(SCHEDULERS)[settings.agent.scheduler](settings)
