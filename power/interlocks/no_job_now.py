"""Power is taken from no node that the scheduler has, or may soon have, a job on. It is asked directly before."""

import asyncio
import time
from collections.abc import Callable

from offpeak.door.door import LastRule
from offpeak.door.effect import Effect, Refusal

InUse = Callable[[str], str]
"""Why a node is not free, "" if it is; raises where nobody can tell. It blocks while the scheduler thinks."""


def no_job_now(in_use: InUse, steady: Callable[[], float] = time.monotonic) -> LastRule:
    """Refuse what takes power away unless the node is free; what `in_use` raises is the door's refusal."""

    async def refuse(effect: Effect) -> Refusal | float:
        if not effect.takes_power_away:
            return steady()

        def ask() -> tuple[float, str]:
            return steady(), in_use(effect.subject)

        begun_s, used = await asyncio.to_thread(ask)
        if not used:
            return begun_s
        hint = f"close it to jobs and wait until it has none: under Slurm `scontrol update nodename={effect.subject}"
        hint += " state=drain reason=offpeak`, under Torque `pbsnodes -o`, under OpenPBS `qmgr -c 'set node'`"
        return Refusal("no_job_now", f"{effect.subject}: {used}", hint)

    return refuse
