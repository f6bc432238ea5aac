"""A private PostgreSQL on loopback without passwords, run by an ordinary user, as it refuses root."""

import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_slurm.processes import listens, reserved_ports, run_once, running

PROGRAMS = "/usr/lib/postgresql/*/bin/postgres"


@dataclass(frozen=True)
class PostgresServer:
    """A cluster of databases in a folder; `url` lacks the database's name."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """The address without the name of a database."""
        return f"postgresql://offpeak@127.0.0.1:{self.port}"

    def create(self, name: str) -> str:
        """Make an empty database and return its URL."""
        place = ("--host=127.0.0.1", f"--port={self.port}", "--username=offpeak")
        run_once(_program("createdb"), *place, name, log=self.folder / "createdb.log")
        return f"{self.url}/{name}"

    @contextmanager
    def up(self) -> Iterator[None]:
        """Run the server; it comes back with all that was committed."""
        # Nothing here must outlast the machine, only the server: that needs no waiting for the disk.
        settings = ("fsync=off", "shared_buffers=16MB", "listen_addresses=127.0.0.1", "autovacuum=off")
        options = [term for setting in settings for term in ("-c", setting)]
        place = ("-D", str(self.folder / "data"), "-k", str(self.folder), "-p", str(self.port))
        command = (*_as_user(), str(_program("postgres")), *place, *options)
        log = self.folder / "postgres.log"
        with running(*command, log=log, ready=lambda: listens(self.port) and _answers(self.port)) as server:
            try:
                yield
            finally:
                # A plain SIGTERM waits until every client has gone.
                server.send_signal(signal.SIGINT)


@contextmanager
def new_postgres() -> Iterator[PostgresServer]:
    """Make an empty cluster of databases."""
    with tempfile.TemporaryDirectory(prefix="offpeak-postgres-") as name, reserved_ports(1) as (port,):
        folder = Path(name)
        user = _user()
        os.chown(folder, user.pw_uid, user.pw_gid)
        options = ("--auth=trust", "--username=offpeak", "--no-sync", "--encoding=UTF8", "--locale=C")
        command = (*_as_user(), str(_program("initdb")), "-D", str(folder / "data"), *options)
        run_once(*command, log=folder / "initdb.log")
        yield PostgresServer(folder, port)


def _user() -> pwd.struct_passwd:
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def _as_user() -> tuple[str, ...]:
    user = _user()
    if os.geteuid() != 0:
        return ()
    return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "TERM")


def _program(name: str) -> Path:
    return max(Path("/").glob(PROGRAMS.removeprefix("/"))).with_name(name)


def _answers(port: int) -> bool:
    import psycopg

    try:
        psycopg.connect(f"host=127.0.0.1 port={port} user=offpeak dbname=postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
