"""A folder that other users may enter, as pytest's own may not be."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give an empty folder that is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="offpeak-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
