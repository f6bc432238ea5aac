"""What a soak of kills is of: a small cluster, how often its agent is killed, and what else breaks there."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KillsPlan:
    """`priority` is Slurm's kind of it, basic or multifactor. After each kill the agent is started again."""

    kills: int = 100
    nodes: int = 8
    seed: int = 1
    priority: str = "basic"

    @property
    def description(self) -> str:
        """What it is, for people."""
        return f"{self.nodes} nodes, priority/{self.priority}, seed {self.seed}"
