"""OpenPBS's hook for the event modifyjob: users cannot raise the priority of their own jobs.

OpenPBS itself permits that, and where the site's formula or sort key contains job_priority, such jobs would jump the
queue that offpeak keeps in order. Managers and operators may raise priorities. A change without a priority passes.
If the hook fails, the change is refused, the server's log shows why, and a file reports the failure to the agent.
"""

import fnmatch
import os
import time
from pathlib import Path

import pbs

NAME = "offpeak_modifyjob"
FAILURES = Path(os.environ.get("OFFPEAK_HOOK_FAILURES", "/run/offpeak-hooks"))
ALWAYS = ("root", "PBS_Server", "Scheduler", "pbsadmin")


def is_privileged(event):
    """Whether an admin, or PBS itself, changes the job."""
    user, host = str(event.requestor), str(event.requestor_host)
    if user in ALWAYS:
        return True
    server = pbs.server()
    # The server passes lists of its own type, and None for an empty list.
    listed = [str(names) for names in (server.managers, server.operators) if names is not None]
    return any(matches(user, host, entry.strip()) for entry in ",".join(listed).split(","))


def matches(user, host, entry):
    """Whether an entry such as ann@head.site.org or ann@*.site.org is that user; hosts with or without a domain."""
    name, _, at = entry.partition("@")
    short = host.split(".")[0]
    return name == user and (not at or fnmatch.fnmatchcase(host, at) or at == short or at.split(".")[0] == host)


def raises(new, old):
    """Whether the change raises the job's priority."""
    return number(new) > (0 if old is None else number(old))


def number(value):
    """Return a priority as a number: the server passes an object of its own type, whose text is the number."""
    return int(str(value))


def failed(problem):
    """Report the failure in the server's log, and to the agent in a file that only root can write."""
    message = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_ERROR, f"{NAME}: refused, as it failed: {message}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), message))
    except OSError as error:
        pbs.logmsg(pbs.LOG_ERROR, f"{NAME}: cannot report to the agent: {error}")


event = pbs.event()
refused = ""
try:
    if event.job.Priority is not None and not is_privileged(event) and raises(event.job.Priority, event.job_o.Priority):
        refused = "offpeak: a job's priority is raised by managers only"
except Exception as problem:
    failed(problem)
    refused = "offpeak: whether this raises the job's priority is not known, as a hook failed: ask an admin"
if refused:
    event.reject(refused)
event.accept()
