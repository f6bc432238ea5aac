"""Which jobs Slurm has on a node now."""

from plugin.slurm.ask import ask

TIMEOUT_S = 20.0

# Everything that holds a node: also what is suspended, completing or being staged.
HOLDING = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,SIGNALING,STAGE_OUT,STOPPED,RESIZING"


def jobs_on_node(node: str, *, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """Return the ids of the jobs that hold the node; CannotAskSlurm where Slurm cannot tell, also of unknown nodes."""
    # The node first, because squeue lists nothing, and succeeds, for some names that are no nodes.
    ask("scontrol", "--oneliner", "show", "node", node, timeout_s=timeout_s)
    command = ("squeue", "--all", "--noheader", f"--nodelist={node}", f"--states={HOLDING}", "--format=%A")
    return tuple(ask(*command, timeout_s=timeout_s).decode().split())
