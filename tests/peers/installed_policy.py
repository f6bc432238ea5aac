"""A window policy in a package of its own, as pip leaves it in a site folder: a module, and metadata with its entry."""

import importlib
from pathlib import Path

from offpeak.settings.agent import WINDOW_POLICIES

WIDEST_FIRST = """
def order(view):
    return sorted(range(len(view.size)), key=lambda rank: -view.size[rank])
"""

LATEST_FIRST = """
def order(view):
    return range(len(view.size) - 1, -1, -1)
"""


def install_policy(folder: Path, module: str, entry: str, code: str) -> None:
    """Install a package into the folder."""
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{WINDOW_POLICIES}]\n{entry}\n")
    importlib.invalidate_caches()
