"""The machine as Slurm sees it: how many nodes, and how large they are."""

import re
from collections import Counter
from dataclasses import dataclass

from plugin.slurm.ask import CannotAskSlurm, ask

TIMEOUT_S = 60.0

_NODE = re.compile(rb"^NodeName=(\S+)(?:.*? CPUTot=(\d+))?", re.MULTILINE)
_CLUSTER = re.compile(rb"^ClusterName\s*=\s*(\S+)", re.MULTILINE)


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
    nodes = ask("scontrol", "--all", "--oneliner", "show", "nodes", timeout_s=timeout_s)
    return machine_of(nodes, ask("scontrol", "show", "config", timeout_s=timeout_s))


def machine_of(nodes: bytes, config: bytes) -> SlurmMachine:
    """Return the machine that the answers to `scontrol --oneliner show nodes` and `show config` describe."""
    processors = {match[1]: int(match[2]) for match in _NODE.finditer(nodes) if match[2]}
    names = {match[1] for match in _NODE.finditer(nodes)}
    if not names:
        hint = "`scontrol show nodes` says why; with PrivateData=nodes in slurm.conf ask as root"
        raise CannotAskSlurm("scontrol: Slurm shows no node", hint=hint)
    counts = Counter(processors.values())
    usual = max(counts, key=counts.__getitem__, default=None)
    cluster = _CLUSTER.search(config)
    return SlurmMachine(
        cluster=cluster[1].decode() if cluster else "",
        nodes=len(names),
        processors_per_node=usual,
        unlike=sum(processors.get(name) != usual for name in names),
    )
