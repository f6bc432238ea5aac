"""OpenPBS's hook for the event runjob: does not let a job start that offpeak keeps back for a cheaper hour.

What counts is the job's own resource offpeak_begin, a Unix second, which the agent has set and nobody else may. So a
job is let go by the clock, whether the agent runs or not. Its owner sees why in the job's comment. Whatever goes wrong
in here lets the job start, and is reported to the agent. It is called for each candidate in each cycle of the
scheduler, and asks nobody.
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
    """Say what went wrong: in the server's log, and in a file where only root writes, for the agent."""
    said = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: let the job go, as it failed: {said}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), said))
    except OSError as trouble:
        pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: cannot tell the agent: {trouble}")


event = pbs.event()
try:
    said = refusal(event.job, time.time())
except Exception as problem:
    failed(problem)
    said = ""
if said:
    event.reject(said)
event.accept()
