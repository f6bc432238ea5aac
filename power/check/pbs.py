"""Whether Torque or OpenPBS answers, and is set up so that jobs can be ordered, deferred and nodes closed."""

import os
import pwd

from offpeak.errors import SchedulerError
from plugin.scheduler.port import Scheduler
from power.check.finding import Finding, Verdict, failed

PART = "scheduler"


def check_pbs(scheduler: Scheduler) -> Finding:
    """Return what is wrong first, or that it answers."""
    try:
        traits = scheduler.traits()
    except SchedulerError as problem:
        return failed(PART, "PBS", problem)
    name = f"{traits.name} {traits.version}"
    if traits.troubles:
        said = "; ".join(what for what, _ in traits.troubles)
        return Finding(
            PART, name, Verdict.DOUBTFUL, said, "; ".join(dict.fromkeys(hint for _, hint in traits.troubles))
        )
    me = pwd.getpwuid(os.geteuid()).pw_name
    return Finding(PART, name, Verdict.GOOD, f"answers; orders by {traits.order_words}; {me} asks it")
