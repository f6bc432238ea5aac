"""Whether Slurm has, or may soon have, a job on a node."""

from plugin.slurm.ask import ask
from plugin.slurm.nodes_text import nodes_of_text

TIMEOUT_S = 20.0

# Everything that holds a node: also what is suspended, completing or being staged.
HOLDING = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,SIGNALING,STAGE_OUT,STOPPED,RESIZING"


def node_in_use(node: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return why the node is not free, "" if it is: drained, and no job holds it.

    CannotAskSlurm where Slurm cannot tell, also of nodes that it does not know.
    """
    shown = nodes_of_text(ask("scontrol", "--oneliner", "show", "node", node, timeout_s=timeout_s))
    command = ("squeue", "--all", "--noheader", f"--nodelist={node}", f"--states={HOLDING}", "--format=%A")
    jobs = ask(*command, timeout_s=timeout_s).decode().split()
    if jobs:
        return f"runs {', '.join(jobs)}"
    if len(shown) != 1 or not shown[0].closed:
        return "is not drained: a job may start there"
    return ""
