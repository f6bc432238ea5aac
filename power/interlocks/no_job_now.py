"""Power is taken from no node that the scheduler has, or may soon have, a job on. It is asked directly before."""

import asyncio
from collections.abc import Callable

from offpeak.door.door import Rule
from offpeak.door.effect import Effect, Refusal

InUse = Callable[[str], str]
"""Why a node is not free, "" if it is; raises where nobody can tell. It blocks while the scheduler thinks."""


def no_job_now(in_use: InUse) -> Rule:
    """Refuse what takes power away unless the node is free; what `in_use` raises is the door's refusal."""

    async def refuse(effect: Effect) -> Refusal | None:
        if not effect.takes_power_away:
            return None
        used = await asyncio.to_thread(in_use, effect.subject)
        if not used:
            return None
        hint = f"close it to jobs and wait until it has none: under Slurm `scontrol update nodename={effect.subject}"
        hint += " state=drain reason=offpeak`, under Torque `pbsnodes -o`, under OpenPBS `qmgr -c 'set node'`"
        return Refusal("no_job_now", f"{effect.subject}: {used}", hint)

    return refuse
