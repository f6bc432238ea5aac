"""The ipmi_sim of a soak, which can be frozen, killed, and started again as themselves or as others."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands, restarted
from benchmarks.local_slurm.processes import missing_files

OTHER_BMC_GUID = uuid.UUID("6b9f3c52-0c7e-4e0b-9d55-7b8f2f4a9d10")
NEEDED = ("ipmi_sim", "gcc", "setpriv")


def lacking_programs() -> list[str]:
    """Return what must be installed first."""
    return missing_files(NEEDED)


class Bmcs:
    """All BMCs by their numbers. What was started again ends with the rest."""

    def __init__(self, made: Sequence[SimulatedBmc]) -> None:
        self.made = list(made)
        self._again: dict[int, ExitStack] = {}

    def restart(self, number: int, *, guid: uuid.UUID | None = None) -> SimulatedBmc:
        """Return the BMC after a restart, with the GUID of another board if one is given."""
        self.made[number].thaw()
        self.made[number].kill()
        if number in self._again:
            self._again.pop(number).close()
        stack = self._again[number] = ExitStack()
        self.made[number] = stack.enter_context(restarted(self.made[number], guid=guid))
        return self.made[number]

    def close(self) -> None:
        """End those that were started again."""
        for stack in self._again.values():
            stack.close()


@contextmanager
def running_bmcs(folder: Path, count: int) -> Iterator[Bmcs]:
    """Run so many."""
    with bmcs(folder, count, compiled_commands(folder)) as made:
        running = Bmcs(made)
        try:
            yield running
        finally:
            running.close()
