"""Brings the tables of a ledger up to those of this program, after a copy was made; a newer ledger is left alone."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from offpeak.errors import BadLedger
from offpeak.ledger.backup import copy_sqlite
from offpeak.ledger.place import place_text, sqlite_file

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0003"
"""The last of the steps. They are numbered upwards: what is greater is of a newer program."""


def prepare(engine: Engine, url: str) -> None:
    """Make what tables are missing; BadLedger, and nothing changed, where a newer program or something else made it.

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
        _take_turn(connection)
        if _revision(connection, url) != HEAD:
            _upgrade(connection)


def check(engine: Engine, url: str) -> None:
    """Raise BadLedger unless the tables are those of this program."""
    with engine.connect() as connection:
        found = _revision(connection, url)
    if found != HEAD:
        raise BadLedger(
            f"{place_text(url)}: has the tables of an older offpeak" if found else f"{place_text(url)}: is empty",
            hint="the agent makes or updates it when it starts; `offpeak ledger prune` does so too",
        )


def _revision(connection: Connection, url: str) -> str | None:
    """Return the revision of the tables, None where there are none; BadLedger for tables that are not ours."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        if tables:
            hint = "name a file or database of its own below [ledger] url"
            raise BadLedger(f"{place_text(url)}: holds tables of another program", hint=hint)
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and found > HEAD:
        said = f"{place_text(url)}: was written by a newer offpeak (tables {found}); nothing was changed"
        raise BadLedger(said, hint="install that version again, or name another ledger below [ledger] url")
    return None if found is None else str(found)


def _take_turn(connection: Connection) -> None:
    """Wait until nobody else changes the tables, who may have done it then. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('offpeak ledger'))"))


def _upgrade(connection: Connection) -> None:
    # Who only reads does not wait half a second for Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
