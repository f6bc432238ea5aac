"""A ledger opened to be read, while the agent goes on writing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from offpeak.errors import BadLedger
from offpeak.ledger.place import place_text, reading_engine, sqlite_file
from offpeak.ledger.schema import check


def must_be_there(url: str) -> Path | None:
    """Return the file of a SQLite ledger; BadLedger where there is none."""
    file = sqlite_file(url)
    if file and not file.exists():
        hint = "the agent begins one when it starts; --ledger or [ledger] url names another"
        raise BadLedger(f"{file}: there is no ledger", hint=hint)
    return file


@contextmanager
def opened(url: str) -> Iterator[Connection]:
    """Give a connection to read by; BadLedger if there is no ledger, or none that this program can read."""
    file = must_be_there(url)
    engine = reading_engine(url)
    try:
        check(engine, url)
        with engine.connect() as connection:
            yield connection
    except DBAPIError as problem:
        said = next(iter(str(problem.orig).strip().splitlines()), "cannot be read")
        hint = f"may you read it? `ls -l {file}`" if file else f"is the database up? psql '{place_text(url)}'"
        raise BadLedger(f"{place_text(url)}: {said}", hint=hint) from None
    finally:
        engine.dispose()
