"""Where a ledger is, as people read it, and how it is opened: SQLite with a log of its writes, or PostgreSQL."""

import os
import sqlite3
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url

from offpeak.errors import BadLedger
from offpeak.installation import install_hint

PATIENCE_S = 2.0
"""How long one write waits for whoever else writes; a database on the network gets as long to answer."""


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite ledger, None for PostgreSQL."""
    parsed = make_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def place_text(url: str) -> str:
    """Return the file, or the URL without a password."""
    file = sqlite_file(url)
    return str(file) if file else make_url(url).render_as_string()


def writing_engine(url: str, *, patience_s: float = PATIENCE_S) -> Engine:
    """Return an engine whose transactions are those of a writer from their first word on."""
    engine = _engine(url, "BEGIN IMMEDIATE", patience_s)
    if sqlite_file(url):
        # It counts before the first table is made, and has to come before the log of writes.
        event.listen(engine, "connect", _let_shrink, insert=True)
    return engine


def reading_engine(url: str, *, patience_s: float = 30.0) -> Engine:
    """Return an engine that keeps no writer waiting; a query may take its time.

    A reader that may not write beside a SQLite file reads it without its log of writes while no process writes it:
    SQLite would make that log.
    """
    file = sqlite_file(url)
    if file and not Path(f"{file}-wal").exists() and not os.access(file.parent, os.W_OK):
        url = f"sqlite:///file:{quote(str(file))}?immutable=1&uri=true"
    return _engine(url, "BEGIN", patience_s)


def claiming_engine(url: str, name: str, *, patience_s: float = PATIENCE_S) -> Engine:
    """Return an engine for one connection to PostgreSQL under that name, which stays open without a transaction."""
    engine = _postgresql(make_url(url), patience_s, name=name)
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _engine(url: str, begin: str, patience_s: float) -> Engine:
    parsed = make_url(url)
    if sqlite_file(url) is None:
        return _postgresql(parsed, patience_s)
    engine = create_engine(url, connect_args={"timeout": patience_s, "check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", lambda connection: _begin(connection, begin))
    return engine


def _postgresql(url: URL, patience_s: float, *, name: str = "offpeak") -> Engine:
    if find_spec("psycopg") is None:
        hint = f"{install_hint('postgresql')}; or make the ledger a SQLite file"
        raise BadLedger("a ledger in PostgreSQL needs psycopg, which is not installed", hint=hint)
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(patience_s)),
        # A head node that is gone does not keep its locks for the server's two hours.
        "options": f"-c lock_timeout={patience_s * 1000:.0f} -c statement_timeout={patience_s * 15_000:.0f}"
        " -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4",
        "tcp_user_timeout": round(patience_s * 5000),
        "application_name": name,
    }
    return create_engine(url.set(drivername="postgresql+psycopg"), connect_args=arguments, pool_size=2)


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin where we say so, also those that change tables.
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _let_shrink(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL").close()


def _begin(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)


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
