"""OpenPBS's hook for the event modifyjob: users do not raise the priority of their own jobs past those of others.

OpenPBS itself lets them, and where the site's formula has job_priority in it, or its sort key is that, they would jump
the queue that offpeak keeps in order. Managers and operators may. Whatever goes wrong in here lets the change pass.
"""

import pbs


def is_privileged(event):
    """Whether it is an admin, or PBS itself, who changes the job."""
    server = pbs.server()
    who = f"{event.requestor}@{event.requestor_host}"
    listed = "{},{}".format(server.managers or "", server.operators or "").split(",")
    names = {each.strip() for each in listed}
    return event.requestor in ("root", "PBS_Server", "Scheduler", "pbsadmin") or bool({who, event.requestor} & names)


def raises(new, old):
    """Whether the change raises the job's priority."""
    wanted = new.Priority
    return wanted is not None and int(wanted) > int(old.Priority or 0)


event = pbs.event()
try:
    refused = raises(event.job, event.job_o) and not is_privileged(event)
except Exception as problem:
    pbs.logmsg(pbs.LOG_WARNING, f"offpeak_modifyjob: let pass: {type(problem).__name__}: {problem}")
    refused = False
if refused:
    event.reject("offpeak: a job's priority is raised by managers only")
event.accept()
