"""An admin's hand on a node."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hold:
    """Nobody but the owner has the node switched until then; without `until_unix_s` it has no end."""

    owner: str
    reason: str
    until_unix_s: float | None = None

    def lasts(self, at_unix_s: float) -> bool:
        """Whether it holds at that time."""
        return self.until_unix_s is None or at_unix_s < self.until_unix_s
