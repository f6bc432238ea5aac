"""OpenPBS's hook for the event runjob: prevents the start of a job that offpeak defers to a cheaper hour.

The hook reads the job's resource offpeak_begin, a Unix second that only the agent may set. Therefore the clock releases
a job, whether the agent runs or not. The job's comment shows the reason to its owner. If the hook fails, the job starts
and the failure is reported to the agent. The scheduler calls the hook for each candidate in each cycle; the hook
contacts no other program.
"""

import os
import time
from pathlib import Path

import pbs

NAME, BEGIN = "offpeak_runjob", "offpeak_begin"
FAILURES = Path(os.environ.get("OFFPEAK_HOOK_FAILURES", "/run/offpeak-hooks"))


def refusal(job, now_s):
    """Return why the job is not to start, "" if it may."""
    begin = job.Resource_List[BEGIN]
    begin_s = 0 if begin is None else int(str(begin))
    if begin_s <= now_s:
        return ""
    return "offpeak: deferred until {}, when electricity is cheaper".format(
        time.strftime("%a %H:%M", time.localtime(begin_s))
    )


def failed(problem):
    """Report the failure in the server's log, and to the agent in a file that only root can write."""
    message = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: let the job go, as it failed: {message}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), message))
    except OSError as error:
        pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: cannot report to the agent: {error}")


event = pbs.event()
try:
    reason = refusal(event.job, time.time())
except Exception as problem:
    failed(problem)
    reason = ""
if reason:
    event.reject(reason)
event.accept()
