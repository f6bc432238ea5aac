"""The ledger's database as the writer's thread sees it: transactions, and what is wrong with them in plain words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from offpeak.errors import CannotWrite
from offpeak.ledger.place import PATIENCE_S, make_file, place_text, sqlite_file, writing_engine
from offpeak.ledger.schema import prepare
from offpeak.ledger.series import SeriesNumbers

HINTS = {
    "locked": "another program writes to it and does not end; `fuser {place}` names it",
    "full": "make room: `df {folder}`; `offpeak ledger prune` deletes old readings",
    "readonly": "let the user that offpeak runs as write to it and to its folder: `ls -l {folder}`",
    "unable to open": "is the folder there, and may the user that offpeak runs as write to it? `ls -ld {folder}`",
    "No such file": "`mkdir -p {folder}` makes the folder; url below [ledger] names another place",
    "malformed": "its disk or file is damaged: bring back a copy of `offpeak ledger backup`",
}
DATABASE_HINT = "is the database up, and may this user log in? psql '{place}'"


class Store:
    """One database, opened when it is first written to and again after any trouble. For one thread only."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        self.url = url
        self.series = SeriesNumbers()
        self._patience_s = patience_s
        self._engine: Engine | None = None
        self._file = sqlite_file(url)
        self._file_is: tuple[int, int] | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a transaction that is written for good when the block ends; CannotWrite or BadLedger if it cannot be.

        What is wrong with a row itself is raised as it is.
        """
        try:
            engine = self._open()
            with engine.begin() as connection:
                yield connection
        except (DBAPIError, OSError) as problem:
            self.close()
            if isinstance(problem, IntegrityError | DataError):
                raise
            raise self._trouble(problem) from problem
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database; what was known of it is looked up again."""
        self.series.forget()
        if self._engine:
            self._engine.dispose()
        self._engine = None

    def _open(self) -> Engine:
        """Return the engine. A SQLite file that is gone is not made anew: with it the record of what was begun is."""
        if self._file:
            self._look_at(self._file)
        if self._engine is None:
            self._engine = writing_engine(self.url, patience_s=self._patience_s)
            prepare(self._engine, self.url)
        return self._engine

    def _look_at(self, file: Path) -> None:
        if self._file_is is None:
            make_file(file)
        elif not file.exists():
            raise CannotWrite(f"{file}: is gone", hint="bring it back, or restart offpeak to begin a new one")
        status = file.stat()
        found = (status.st_dev, status.st_ino)
        if found != self._file_is:
            self.close()
        self._file_is = found

    def _trouble(self, problem: Exception) -> CannotWrite:
        said = (
            str(problem.orig) if isinstance(problem, DBAPIError) else getattr(problem, "strerror", None) or str(problem)
        )
        first = next(iter(said.strip().splitlines()), type(problem).__name__)
        place = place_text(self.url)
        hint = next((hint for word, hint in HINTS.items() if self._file and word in first), "")
        hint = hint or (f"try `ls -l {place}`" if self._file else DATABASE_HINT)
        return CannotWrite(f"{place}: {first}", hint=hint.format(place=place, folder=Path(place).parent))
