"""OpenPBS's hook for the event runjob: does not let a job start that offpeak keeps back for a cheaper hour.

What counts is the job's own resource offpeak_begin, a Unix second, which the agent has set and nobody else may. So a
job is let go by the clock, whether the agent runs or not. Its owner sees why in the job's comment. Whatever goes wrong
in here lets the job start. It is called for each candidate in each cycle of the scheduler, and asks nobody.
"""

import time

import pbs

BEGIN = "offpeak_begin"


def refusal(job, now_s):
    """Return why the job is not to start, "" if it may."""
    begin_s = int(job.Resource_List[BEGIN] or 0)
    if begin_s <= now_s:
        return ""
    return "offpeak: deferred until {}, when electricity is cheaper".format(
        time.strftime("%a %H:%M", time.localtime(begin_s))
    )


event = pbs.event()
try:
    said = refusal(event.job, time.time())
except Exception as problem:
    pbs.logmsg(pbs.LOG_WARNING, f"offpeak_runjob: let go: {type(problem).__name__}: {problem}")
    said = ""
if said:
    event.reject(said)
event.accept()
