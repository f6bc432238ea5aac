"""Whether Slurm has, or may soon have, a job on a node: squeue's answer and the node's own record must agree."""

from plugin.scheduler.node import NodeUse
from plugin.slurm.ask import CannotAskSlurm, ask
from plugin.slurm.nodes_text import node_fields, nodes_of_text
from plugin.slurm.rights import SlurmRights
from plugin.slurm.words import plain

TIMEOUT_S = 20.0

# Everything that holds a node: also what is suspended, completing or being staged.
HOLDING = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,SIGNALING,STAGE_OUT,STOPPED,RESIZING"

# What jobs have of a node, by the fields of its record, and what stands there when they have nothing.
NOTHING_GIVEN = {"CPUAlloc": "0", "AllocMem": "0", "AllocTRES": ""}


def node_in_use(node: str, rights: SlurmRights, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return why the node is not free, "" if it is: drained, no job holds it, and nothing of it is allocated.

    CannotAskSlurm if Slurm cannot tell: for a node that it does not know, a state or a record that this program does
    not know, a user from whom jobs are hidden, and an allocated node without a visible job.
    """
    # A suspended job has no processors of its node: its record alone does not show the job.
    rights.require_all_jobs()
    command = ("squeue", "--all", "--noheader", f"--nodelist={node}", f"--states={HOLDING}", "--format=%A")
    jobs = ask(*command, timeout_s=timeout_s).decode().split()
    # The record comes last: that the node is drained and free holds for one instant, and no job starts there after it.
    answer = ask("scontrol", "--oneliner", "show", "node", node, timeout_s=timeout_s)
    if jobs:
        return f"runs {', '.join(jobs)}"
    return _refusal_of_record(node, answer, rights)


def _refusal_of_record(node: str, answer: bytes, rights: SlurmRights) -> str:
    shown, fields = nodes_of_text(answer), node_fields(answer)
    if len(shown) != 1 or shown[0].name != node:
        raise CannotAskSlurm(f"scontrol: shows no node {node}", hint=f"`scontrol show node {node}`; {rights.hint}")
    (record,) = shown
    if not record.closed:
        return "is not drained: a job may start there"
    missing = [name for name in NOTHING_GIVEN if name not in fields]
    if record.use is NodeUse.UNKNOWN or missing:
        what = f"without {', '.join(missing)}" if missing else f"in the unknown state {record.state_word}"
        raise CannotAskSlurm(f"scontrol: shows {node} {what}", hint=f"look at it: scontrol show node {node}")
    given = [f"{name}={fields[name]}" for name, nothing in NOTHING_GIVEN.items() if plain(fields[name]) != nothing]
    if given or record.use is NodeUse.USED:
        said = " ".join([f"{node} is {record.state_word}", *given])
        hint = f"PrivateData=jobs, or a lost AdminLevel of {rights.user}, hides jobs: `offpeak check` tells"
        raise CannotAskSlurm(f"scontrol: {said}, but squeue shows no job there", hint=hint)
    return "is reserved: see `scontrol show reservation`" if record.reserved else ""
