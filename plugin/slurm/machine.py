"""The machine as Slurm sees it: how many nodes, and how large they are."""

from collections import Counter
from dataclasses import dataclass

from plugin.slurm import nodes_text
from plugin.slurm.ask import CannotAskSlurm, ask
from plugin.slurm.config_text import config_of_text
from plugin.slurm.nodes_text import nodes_of_text

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SlurmMachine:
    """A cluster: each node counts once, whatever its state and in however many partitions it is.

    `processors_per_node` is what most nodes have, in Slurm's CPUs, None if Slurm does not say; `unlike` is how many
    nodes have another number of them.
    """

    cluster: str
    nodes: int
    processors_per_node: int | None
    unlike: int


def machine_of_slurm(*, timeout_s: float = TIMEOUT_S) -> SlurmMachine:
    """Return the cluster of this machine; CannotAskSlurm if there is none, SlurmIsSilent if slurmctld is down."""
    nodes = ask("scontrol", *nodes_text.ARGUMENTS, timeout_s=timeout_s)
    return machine_of(nodes, ask("scontrol", "show", "config", timeout_s=timeout_s))


def machine_of(nodes: bytes, config: bytes) -> SlurmMachine:
    """Return the machine that the answers to `scontrol --oneliner show nodes` and `show config` describe."""
    processors = [node.cpus or None for node in nodes_of_text(nodes)]
    if not processors:
        hint = "`scontrol show nodes` says why; with PrivateData=nodes in slurm.conf ask as root"
        raise CannotAskSlurm("scontrol: Slurm shows no node", hint=hint)
    counts = Counter(number for number in processors if number)
    usual = max(counts, key=counts.__getitem__, default=None)
    return SlurmMachine(
        cluster=config_of_text(config).get("ClusterName", ""),
        nodes=len(processors),
        processors_per_node=usual,
        unlike=sum(number != usual for number in processors),
    )
