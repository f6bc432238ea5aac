"""What a benchmark returns, and the machine that it ran on."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One figure with its bar, a lower or an upper bound."""

    what: str
    value: float
    unit: str
    bar: float
    at_least: bool
    data: str

    @property
    def reached(self) -> bool:
        """Whether the bar is reached."""
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def machine() -> str:
    """Return processor, cores, memory and versions in a line."""
    from importlib.metadata import version

    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU"
    )
    memory_gib = int(next(line for line in _lines("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) / 2**20
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy", "pyarrow"))
    return f"{cpu}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Python {platform.python_version()}, {versions}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
