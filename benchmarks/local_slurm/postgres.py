"""A private PostgreSQL on loopback without passwords, run by an ordinary user, as it refuses root.

A replica follows it without waiting, as PostgreSQL does by default: a fail-over may lose the last transactions.
"""

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_slurm.processes import listens, reserved_ports, run_once, running, wait_until

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

    def query(self, statement: str) -> str:
        """Return what one statement prints, in the database of the server itself."""
        place = ("--host=127.0.0.1", f"--port={self.port}", "--username=offpeak", "--dbname=postgres")
        command = (str(_program("psql")), *place, "--tuples-only", "--no-align", f"--command={statement}")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def new_replica(self, port: int) -> "PostgresServer":
        """Copy the running server; the copy follows it once it is up."""
        copy = PostgresServer(self.folder / "replica", port)
        copy.folder.mkdir()
        os.chown(copy.folder, _user().pw_uid, _user().pw_gid)
        place = ("--host=127.0.0.1", f"--port={self.port}", "--username=offpeak", "--checkpoint=fast")
        command = (*_as_user(), str(_program("pg_basebackup")), *place, "--write-recovery-conf")
        run_once(*command, "-D", copy.folder / "data", log=self.folder / "basebackup.log")
        return copy

    def cut_off_from_primary(self) -> None:
        """Let a replica receive nothing any more: what is committed from now on is lost in a fail-over to it."""
        self.query("ALTER SYSTEM SET primary_conninfo = ''")
        self.query("SELECT pg_reload_conf()")
        state = "SELECT count(*) FROM pg_stat_wal_receiver"
        wait_until(lambda: self.query(state) == "0", what="the replica to be cut off", every_s=0.1)

    def kill(self) -> None:
        """Kill the running server: its clients lose their connections at once."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def promote(self) -> None:
        """Make a replica the primary server."""
        self.query("SELECT pg_promote()")

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
