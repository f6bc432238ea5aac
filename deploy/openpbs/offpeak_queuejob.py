"""OpenPBS's hook for the event queuejob: tells users at submission when their words for offpeak make no sense.

    qsub -v OFFPEAK=delay=12h                    the job may start up to 12 hours later than it could (s, min, h, d)
    qsub -v OFFPEAK=deadline=2026-11-22T08:00    it may wait as long as it has ended by then, at its walltime
    qsub -v OFFPEAK=now                          leave it alone

Several words are separated by semicolons. A new job begins without an offset in the order. Whatever goes wrong in here
lets the job pass, and is told to the agent.
"""

import datetime
import os
import re
import time
from pathlib import Path

import pbs

NAME, VARIABLE, PRIO = "offpeak_queuejob", "OFFPEAK", "offpeak_prio"
FAILURES = Path(os.environ.get("OFFPEAK_HOOK_FAILURES", "/run/offpeak-hooks"))
UNIT_S = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def trouble_of(value):
    """Return what is wrong with the words, "" if nothing is."""
    for word in re.split(r"[,;\s]+", value.strip()):
        name, _, rest = word.replace("offpeak:", "", 1).partition("=")
        if name == "delay":
            said = delay_trouble(rest)
        elif name == "deadline":
            said = deadline_trouble(rest)
        elif word in ("", "now", "offpeak:now"):
            said = ""
        else:
            said = "not a word of offpeak: delay=12h, deadline=2026-11-22T08:00 or now"
        if said:
            return f"{VARIABLE}={word}: {said}"
    return ""


def delay_trouble(text):
    """Return what is wrong with a delay, "" if nothing is."""
    match = re.match(r"([0-9.]+)([a-z]+)$", text)
    if not match or match.group(2) not in UNIT_S:
        return "write it like delay=12h, with s, min, h or d"
    try:
        seconds = float(match.group(1)) * UNIT_S[match.group(2)]
    except ValueError:
        return "write it like delay=12h"
    return "" if seconds == int(seconds) else "a delay is in whole seconds"


def deadline_trouble(text):
    """Return what is wrong with a deadline, "" if nothing is."""
    if not re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?$", text):
        return "write it like deadline=2026-11-22T08:00 or 2026-11-22T08:00+01:00"
    try:
        datetime.datetime.strptime(text[:16], "%Y-%m-%dT%H:%M")
    except ValueError:
        return "there is no such time"
    return ""


def failed(problem):
    """Say what went wrong: in the server's log, and in a file where only root writes, for the agent."""
    said = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: let the job pass, as it failed: {said}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), said))
    except OSError as trouble:
        pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: cannot tell the agent: {trouble}")


event = pbs.event()
try:
    job = event.job
    variables = job.Variable_List or {}
    said = trouble_of(str(variables[VARIABLE])) if VARIABLE in variables else ""
    job.Resource_List[PRIO] = 0.0
except Exception as problem:
    failed(problem)
    said = ""
if said:
    event.reject(said)
event.accept()
