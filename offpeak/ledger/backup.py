"""A copy of a SQLite ledger, made while others go on writing."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from offpeak.errors import BadInput, CannotWrite
from offpeak.ledger.place import place_text, sqlite_file


def backup(url: str, path: Path) -> None:
    """Write a whole copy to `path`, which must not be there yet; BadInput for PostgreSQL, whose own tool does that."""
    file = sqlite_file(url)
    if file is None:
        hint = f"pg_dump --format=custom --file={path} '{place_text(url)}'"
        raise BadInput(f"{place_text(url)}: PostgreSQL's own tool makes copies", hint=hint)
    if path.exists():
        raise BadInput(f"{path}: is there already", hint="name a new file; a copy replaces none")
    copy_sqlite(file, path)


def copy_sqlite(file: Path, path: Path) -> None:
    """Copy the ledger while writers go on; only the owner reads the copy. CannotWrite if it fails."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(path)
    except (OSError, sqlite3.Error) as problem:
        unfinished.unlink(missing_ok=True)
        hint = f"choose a folder that you may write and that has room; try `df {path.parent}`"
        raise CannotWrite(f"{path}: cannot be written: {problem}", hint=hint) from problem
