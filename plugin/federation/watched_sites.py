"""The sites as their file says now: a change takes effect at the next cycle, a mistake in it leaves what was."""

from pathlib import Path

from offpeak.errors import BadSites
from plugin.federation.grid import Grid
from plugin.federation.sites_file import read_sites

Stamp = tuple[int, int, int]


class WatchedSites:
    """Reads the file again when it has changed. BadSites if it is wrong at the beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._grid, self._stamp = read_sites(path), _stamp(path)
        self.problem: BadSites | None = None

    def grid(self) -> Grid:
        """Return the sites of the file's last correct state; `problem` says what is wrong with it now."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read()
        return self._grid

    def _read(self) -> None:
        try:
            self._grid, self.problem = read_sites(self._path), None
        except BadSites as problem:
            self.problem = problem


def _stamp(path: Path) -> Stamp | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_mtime_ns, told.st_size, told.st_ino
