"""The database of a ledger: its address, its engines, the version of its tables, a copy, and a connection to read.

SQLite has a log of its writes, so that a reader and the agent do not wait for each other. Older tables are brought to
those of this program, after a copy was made; a newer ledger is left alone.
"""

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from offpeak.errors import BadInput, BadLedger, CannotWrite
from offpeak.files import is_there
from offpeak.installation import install_hint
from offpeak.model.constants import DAY_S

PATIENCE_S = 2.0
"""How long a write waits for other writers; a database server gets the same time to answer."""


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite ledger, None for PostgreSQL."""
    parsed = make_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def ledger_address(url: str) -> str:
    """Return the file, or the URL without a password."""
    file = sqlite_file(url)
    return str(file) if file else unquote(make_url(url).render_as_string())


def writing_engine(url: str, *, patience_s: float = PATIENCE_S, name: str = "offpeak") -> Engine:
    """Return an engine whose transactions take the write lock when they begin."""
    engine = _engine(url, "BEGIN IMMEDIATE", patience_s, name)
    if sqlite_file(url):
        # It counts before the first table is made, and must come before the log of writes.
        event.listen(engine, "connect", _let_shrink, insert=True)
    return engine


def reading_engine(url: str, *, patience_s: float = 30.0) -> Engine:
    """Return an engine that keeps no writer waiting; a query may take its time.

    A reader without write access to the folder of a SQLite file reads it without its write-ahead log, which SQLite
    would otherwise create, while no process writes.
    """
    file = sqlite_file(url)
    if file and not Path(f"{file}-wal").exists() and not os.access(file.parent, os.W_OK):
        url = f"sqlite:///file:{quote(str(file))}?immutable=1&uri=true"
    return _engine(url, "BEGIN", patience_s)


def claiming_engine(url: str, name: str, *, patience_s: float = PATIENCE_S) -> Engine:
    """Return an engine for one connection to PostgreSQL under that name, which stays open without a transaction."""
    engine = _postgresql(make_url(url), patience_s, name=name)
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _engine(url: str, begin: str, patience_s: float, name: str = "offpeak") -> Engine:
    parsed = make_url(url)
    if sqlite_file(url) is None:
        return _postgresql(parsed, patience_s, name=name)
    engine = create_engine(url, connect_args={"timeout": patience_s, "check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _postgresql(url: URL, patience_s: float, *, name: str) -> Engine:
    if find_spec("psycopg") is None:
        hint = f"{install_hint('postgresql')}; or make the ledger a SQLite file"
        raise BadLedger("a ledger in PostgreSQL needs psycopg, which is not installed", hint=hint)
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(patience_s)),
        # Otherwise the server would keep the locks of a lost head node for two hours, or lose a lease when it crashes.
        "options": f"-c lock_timeout={patience_s * 1000:.0f} -c statement_timeout={patience_s * 15_000:.0f}"
        " -c synchronous_commit=on"
        " -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4",
        "tcp_user_timeout": round(patience_s * 5000),
        # A server that is fenced after it has received a query would be waited for for two hours.
        **{"keepalives_idle": max(1, round(patience_s)), "keepalives_interval": max(1, round(patience_s))},
        "keepalives_count": 3,
        "application_name": name,
    }
    return create_engine(url.set(drivername="postgresql+psycopg"), connect_args=arguments, pool_size=2)


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin explicitly, also those that change tables.
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _let_shrink(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL").close()


def make_file(file: Path) -> None:
    """Make an empty file if there is none: the ledger names users and their jobs, so that only its owner reads it.

    In a folder that the group may enter and no other user, as the agent's is, the group reads it too.
    """
    of_folder = stat.S_IMODE(file.parent.stat().st_mode)
    group = stat.S_IRGRP if of_folder & 0o077 == stat.S_IRGRP | stat.S_IXGRP else 0
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, 0o600 | group)
    finally:
        os.close(descriptor)


def back_up_ledger(url: str, path: Path) -> None:
    """Write a whole copy to `path`, which must not be there yet.

    Raises BadInput for PostgreSQL, whose own tool does that.
    """
    file = sqlite_file(url)
    if file is None:
        hint = f"pg_dump --format=custom --file={path} '{ledger_address(url)}'"
        raise BadInput(f"{ledger_address(url)}: PostgreSQL's own tool makes copies", hint=hint)
    if path.exists():
        raise BadInput(f"{path}: is there already", hint="name a new file; a copy replaces none")
    copy_sqlite(file, path)


def copy_sqlite(file: Path, path: Path) -> None:
    """Copy the ledger while writers go on; only the owner reads the copy. Raises CannotWrite if it fails."""
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


MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0010"
"""The last migration. Migrations are numbered upwards; a greater number is from a newer program."""


def prepare_schema(engine: Engine, url: str) -> None:
    """Make what tables are missing. Raises BadLedger, and nothing changed, where a newer program or something else made
    it.

    A SQLite file is first copied to FILE.before-REVISION.
    """
    with engine.connect() as connection:
        found = _revision(connection, url)
    if found == HEAD:
        return
    file = sqlite_file(url)
    if file and found:
        copy_sqlite(file, file.with_name(f"{file.name}.before-{HEAD}"))
    with engine.begin() as connection:
        # Wait until no other process changes the tables; it may have migrated them. SQLite has one writer
        # anyway.
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('offpeak ledger'))"))
            # To change the tables of a large ledger takes longer than any query.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        if _revision(connection, url) != HEAD:
            _upgrade(connection)


def check_schema(engine: Engine, url: str) -> None:
    """Raise BadLedger unless the tables are those of this program."""
    with engine.connect() as connection:
        found = _revision(connection, url)
    if found != HEAD:
        raise BadLedger(
            f"{ledger_address(url)}: has the tables of an older offpeak"
            if found
            else f"{ledger_address(url)}: is empty",
            hint="the agent makes or updates it when it starts; `offpeak ledger prune` does so too",
        )


def _revision(connection: Connection, url: str) -> str | None:
    """Return the revision of the tables, None without tables. Raises BadLedger for tables of another program."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        if tables:
            hint = "name a file or database of its own below [ledger] url"
            raise BadLedger(f"{ledger_address(url)}: holds tables of another program", hint=hint)
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and found > HEAD:
        message = f"{ledger_address(url)}: was written by a newer offpeak (tables {found}); nothing was changed"
        raise BadLedger(message, hint="install that version again, or name another ledger below [ledger] url")
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    # A reader does not wait half a second for the import of Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def list_partitions(connection: Connection, table: str) -> list[str]:
    """Return the names of the partitions of a table in PostgreSQL: the month of the last rows ends each of them."""
    names = inspect(connection).get_table_names() if connection.dialect.name == "postgresql" else ()
    return sorted(name for name in names if re.fullmatch(rf"{table}_(until_)?\d{{4}}_\d\d", name))


def add_partitions(connection: Connection, table: str, at_unix_s: Iterable[float]) -> None:
    """Create the missing partitions of the months (UTC) of these times in PostgreSQL. Readers and writers do not wait.

    The partition of an older table has all months before its own, too.
    """
    if connection.dialect.name != "postgresql":
        return
    there = list_partitions(connection, table)
    oldest = max((name[-7:] for name in there if "until" in name), default="")
    for first in {datetime.fromtimestamp(at // DAY_S * DAY_S, UTC).replace(day=1) for at in at_unix_s}:
        name, end = f"{table}_{first:%Y_%m}", (first + timedelta(32)).replace(day=1)
        if name not in there and name[-7:] > oldest:
            connection.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
            bounds = f"FROM ({first.timestamp():.0f}) TO ({end.timestamp():.0f})"
            connection.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}"))


def require_ledger_file(url: str) -> Path | None:
    """Return the file of a SQLite ledger. Raises BadLedger if there is none."""
    file = sqlite_file(url)
    if file and not is_there(file):
        hint = "the agent begins one when it starts; --ledger or [ledger] url names another"
        raise BadLedger(f"{file}: there is no ledger", hint=hint)
    return file


@contextmanager
def open_ledger(url: str) -> Iterator[Connection]:
    """Open a connection for reading. Raises BadLedger if there is no ledger that this program can read."""
    file = require_ledger_file(url)
    engine = reading_engine(url)
    try:
        check_schema(engine, url)
        with engine.connect() as connection:
            yield connection
    except DBAPIError as problem:
        message = next(iter(str(problem.orig).strip().splitlines()), "cannot be read")
        hint = f"may you read it? `ls -l {file}`" if file else f"is the database up? psql '{ledger_address(url)}'"
        raise BadLedger(f"{ledger_address(url)}: {message}", hint=hint) from None
    finally:
        engine.dispose()


Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def query_ledger(
    url: str, query: Callable[Concatenate[Connection, Given], Answer], *given: Given.args, **named: Given.kwargs
) -> Answer:
    """Return the result of one query. It waits for the disk: an event loop calls it in a thread. Raises BadLedger."""
    with open_ledger(url) as connection:
        return query(connection, *given, **named)
