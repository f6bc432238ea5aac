"""The schedulers by their names, and which one the site has: as set below [agent], else as found on this machine."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from offpeak.errors import SchedulerError
from offpeak.plugin.pbs.accounting import may_be_there
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.table import Settings

SLURM, TORQUE, OPENPBS, SIMULATED = "slurm", "torque", "openpbs", "simulated"


class DemoScheduler:
    """The scheduler inside `offpeak demo`, seen from another program: it refuses every call."""

    changes_lists = False

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        hint = "while the demo runs its agent answers: `offpeak status`, `queue` and `why`"
        raise SchedulerError("the simulated scheduler answers inside `offpeak demo` only", hint=hint)

    traits = view = find_uses = rank = defer = notify = change_nodes = requeue_permits = signal = requeue = _refuse
    start_cycle = _refuse


SCHEDULERS: tuple[tuple[str, Callable[[Settings], Scheduler]], ...] = (
    (SLURM, lambda settings: SlurmScheduler(settings.slurm)),
    (TORQUE, lambda settings: TorqueScheduler(settings.pbs)),
    (OPENPBS, lambda settings: OpenPbsScheduler(settings.pbs)),
    (SIMULATED, lambda _: DemoScheduler()),
)


def scheduler_of(settings: Settings) -> Scheduler:
    """Return the site's scheduler: Slurm if none is set and none found, as its errors then show what is missing."""
    return dict(SCHEDULERS)[scheduler_name(settings) or SLURM](settings)


def scheduler_name(settings: Settings, root: Path = Path("/")) -> str | None:
    """Return which scheduler the site has: as set by an option or in the file, else as found; None without one."""
    if settings.agent.scheduler is not None:
        return settings.agent.scheduler
    if shutil.which("scontrol") or shutil.which("sacct"):
        return SLURM
    # The variable is OpenPBS's own: its commands look there, too.
    conf = Path(os.environ.get("PBS_CONF_FILE") or root / "etc/pbs.conf")
    if may_be_there(conf) or may_be_there(root / "var/spool/pbs"):
        return OPENPBS
    torque_home = root / settings.pbs.home.relative_to("/") if settings.pbs.home.is_absolute() else settings.pbs.home
    return TORQUE if may_be_there(torque_home) or shutil.which("pbsnodes") else None
