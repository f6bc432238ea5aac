"""OpenPBS's hook for the event modifyjob: users do not raise the priority of their own jobs past those of others.

OpenPBS itself lets them, and where the site's formula has job_priority in it, or its sort key is that, they would jump
the queue that offpeak keeps in order. Managers and operators may. A change without a priority is none of its business.
This hook guards: where it fails, the change is refused, the server's log says why, and a file tells the agent.
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
    """Whether it is an admin, or PBS itself, who changes the job."""
    user, host = str(event.requestor), str(event.requestor_host)
    if user in ALWAYS:
        return True
    server = pbs.server()
    # The server hands lists of its own type, and None for an empty one.
    listed = [str(each) for each in (server.managers, server.operators) if each is not None]
    return any(matches(user, host, each.strip()) for each in ",".join(listed).split(","))


def matches(user, host, entry):
    """Whether an entry such as ann@head.site.org or ann@*.site.org is that user; hosts with or without a domain."""
    name, _, at = entry.partition("@")
    short = host.split(".")[0]
    return name == user and (not at or fnmatch.fnmatchcase(host, at) or at == short or at.split(".")[0] == host)


def raises(new, old):
    """Whether the change raises the job's priority."""
    return number(new) > (0 if old is None else number(old))


def number(value):
    """Return a priority as a number: the server hands an object of its own that is one only as text."""
    return int(str(value))


def failed(problem):
    """Say what went wrong: in the server's log, and in a file where only root writes, for the agent."""
    said = f"{type(problem).__name__}: {problem}"
    pbs.logmsg(pbs.LOG_ERROR, f"{NAME}: refused, as it failed: {said}")
    try:
        FAILURES.mkdir(mode=0o755, parents=True, exist_ok=True)
        (FAILURES / NAME).write_text("{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%S"), said))
    except OSError as trouble:
        pbs.logmsg(pbs.LOG_ERROR, f"{NAME}: cannot tell the agent: {trouble}")


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
