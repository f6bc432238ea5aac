"""OpenPBS's hook for the event queuejob: refuses a submission with invalid hints for offpeak.

    qsub -v OFFPEAK=delay=12h                    the job may start up to 12 hours later than it could (s, min, h, d)
    qsub -v OFFPEAK=deadline=2026-11-22T08:00    it may wait as long as it has ended by then, at its walltime
    qsub -v OFFPEAK=checkpoint=USR1@10min        it may be requeued: a checkpoint takes this time at most
    qsub -v OFFPEAK=cap                          the power of its nodes may be capped
    qsub -v OFFPEAK=now                          leave it alone

Several hints are separated by semicolons. A new job begins without an offset in the order. One that may wait, by delay=
or deadline=, begins in two minutes unless its owner gave it a time: the server starts a job at its submission where
nodes are free, before offpeak's first decision about it. If the hook fails, the job passes and the failure is reported
to the agent.
"""

import datetime
import os
import re
import time
from pathlib import Path

import pbs

NAME, VARIABLE, PRIO, BEGIN = "offpeak_queuejob", "OFFPEAK", "offpeak_prio", "offpeak_begin"
HOLD_S = 120
FAILURES = Path(os.environ.get("OFFPEAK_HOOK_FAILURES", "/run/offpeak-hooks"))
FIRST_YEAR, LAST_YEAR = 1970, 2999
LONGEST_S = 100 * 36525 * 864
DEADLINE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-5][0-9])?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
)
UNIT_S = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def find_problem(value):
    """Return the first problem of the hints, "" for none."""
    for hint in re.split(r"[,;\s]+", value.strip()):
        plain = re.sub("^offpeak:", "", hint)
        name, _, rest = plain.partition("=")
        if name == "delay":
            problem = delay_problem(rest)
        elif name == "deadline":
            problem = deadline_problem(rest)
        elif name == "checkpoint":
            problem = checkpoint_problem(rest)
        elif plain in ("", "now", "cap"):
            problem = ""
        else:
            problem = "unknown hint: delay=12h, deadline=2026-11-22T08:00, checkpoint=10min, cap or now"
        if problem:
            return f"{VARIABLE}={hint}: {problem}"
    return ""


def may_wait(value):
    """Return whether the owner allows a delay."""
    names = [re.sub("^offpeak:", "", hint).partition("=")[0] for hint in re.split(r"[,;\s]+", value.strip())]
    return "now" not in names and ("delay" in names or "deadline" in names)


def delay_problem(text):
    """Return the problem of a delay, "" for none."""
    match = re.match(r"([0-9.]{1,300})([a-z]+)$", text)
    if not match or match.group(2) not in UNIT_S:
        return "write it like delay=12h, with s, min, h or d"
    try:
        seconds = float(match.group(1)) * UNIT_S[match.group(2)]
    except ValueError:
        return "write it like delay=12h"
    if seconds > LONGEST_S:
        return f"{text!r} is more than 100 years; check the number and its unit"
    return "" if seconds == int(seconds) else "a delay is in whole seconds"


def deadline_problem(text):
    """Return the problem of a deadline, "" for none."""
    if not DEADLINE.match(text):
        return "write it like deadline=2026-11-22T08:00 or 2026-11-22T08:00+01:00"
    try:
        year = datetime.datetime.strptime(text[:16], "%Y-%m-%dT%H:%M").year
    except ValueError:
        return "there is no such time"
    if not FIRST_YEAR <= year <= LAST_YEAR:
        form = "write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00"
        return f"{text!r} is not between {FIRST_YEAR} and {LAST_YEAR}; {form}"
    return ""


def checkpoint_problem(text):
    """Return the problem of a checkpoint, "" for none."""
    match = re.match(r"(?:(?:USR1|USR2|TERM|INT|HUP)@)?([0-9]{1,9})(s|min|m|h)$", text)
    seconds = int(match.group(1)) * UNIT_S.get(match.group(2), 60) if match else 0
    return "" if 0 < seconds < 86400 else "write it like checkpoint=10min or checkpoint=USR2@10min, below a day"


def failed(problem):
    """Report the failure in the server's log, and to the agent in a file that only root can write."""
    message = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: let the job pass, as it failed: {message}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), message))
    except OSError as error:
        pbs.logmsg(pbs.LOG_WARNING, f"{NAME}: cannot report to the agent: {error}")


event = pbs.event()
try:
    job = event.job
    variables = job.Variable_List or {}
    value = str(variables[VARIABLE]) if VARIABLE in variables else ""
    problem = find_problem(value) if value else ""
    job.Resource_List[PRIO] = 0.0
    if may_wait(value) and not getattr(job, "Execution_Time", None):
        job.Resource_List[BEGIN] = int(time.time()) + HOLD_S
except Exception as error:
    failed(error)
    problem = ""
if problem:
    event.reject(problem)
event.accept()
