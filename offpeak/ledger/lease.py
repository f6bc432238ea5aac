"""The lease of a ledger: the agent that holds it acts, and no other.

On one head node it is a locked file beside the SQLite database; it ends with its process. Of a pair of head nodes the
agent acts whose lease in PostgreSQL is valid by the clock of the database. Its token grows with each holder, and every
transaction of the holder checks it. Between two answers of the database the holder relies on a clock that nobody can
set: it counts from before each renewal was sent, so that it ends before the lease in the database does.
"""

import math
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from offpeak.door.journal import LeaseState
from offpeak.errors import BadInput, CannotWrite, OffpeakError
from offpeak.ledger.database import claiming_engine, ledger_address, prepare_schema, sqlite_file, writing_engine
from offpeak.model.clock import boot_s
from offpeak.process import AlreadyRunning, locked_file

_NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
_TIMELINE = "CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS bigint)"
"""PostgreSQL counts up its timeline at each promotion and each restore; a server in recovery raises an error."""
READ = text(
    "SELECT token, timeline, holder, until_unix_s, until_unix_s - now AS left_s, now, present"
    f" FROM lease, (SELECT {_NOW} AS now, {_TIMELINE} AS present) AS server"
)
# A new token changes the key of the row. That waits for the transactions that CHECK it; a renewal does not.
TAKE = text(
    f"UPDATE lease SET token = greatest(token, {_TIMELINE} << 32) + 1, timeline = {_TIMELINE}, holder = :holder,"
    f" until_unix_s = {_NOW} + :lease_s WHERE token = :token AND until_unix_s = :until_unix_s"
    " RETURNING token, timeline"
)
RENEW = text(
    f"UPDATE lease SET until_unix_s = {_NOW} + :lease_s WHERE token = :token AND holder = :holder"
    f" AND timeline = {_TIMELINE} RETURNING standby, {_NOW} - standby_unix_s AS standby_age_s"
)
CHECK = text(f"SELECT until_unix_s - {_NOW} FROM lease WHERE token = :token AND holder = :holder FOR KEY SHARE")
STAND_BY = text(f"UPDATE lease SET standby = :holder, standby_unix_s = {_NOW} WHERE token = :token")
RELEASE = text("UPDATE lease SET until_unix_s = 0 WHERE token = :token AND holder = :holder")
END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :holder AND pid <> pg_backend_pid()"
)
MARGIN = 1 / 5
"""The part of the lease that must be left when an order is recorded, and when it is sent."""
RENEWALS = 3
POLLS = 10
"""How often a lease is renewed in its length, and how often a standby agent polls it."""
CLOCK_S = 30.0
"""A host whose clock differs more from the database's takes no lease: it would misjudge the age of orders."""
LONGEST_S = 300.0
"""The longest lease that can be set. A lease that is not renewed keeps no agent longer, by whatever clock."""
LET_GO_S = 1.0
"""How long `close` waits for a query that hangs; the lease then ends by itself."""
HINT = "one agent only acts by a ledger: url below [ledger] names another, or stop that agent"
PAIR_HINT = "two head nodes need a ledger in PostgreSQL: docs/how-to/two-head-nodes.md"
RETRY_HINT = "no order is given until the database answers"
NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "fuse.", "9p", "afs")


class Lease:
    """The right to act by a ledger: a locked file beside a SQLite database, whose own locks are short.

    A process holds it until it ends: no other head node can have it.
    """

    holder, lost_to, acts_for_s = "offpeak", "", math.inf

    def __init__(self, url: str) -> None:
        self._url, self._turn, self._held = url, Lock(), ExitStack()
        self._is_held = False

    @property
    def _lock_file(self) -> Path:
        return Path(f"{sqlite_file(self._url)}.lock")

    def acquire(self, *, stands_by: bool = False) -> None:  # noqa: ARG002
        """Take the lease if it is free; do nothing if it is held. `stands_by` tells the holder that this agent waits.

        Raises AlreadyRunning if another agent has it, CannotWrite where that cannot be found out.
        """
        with self._turn:
            if not self._is_held:
                _refuse_other_host(self._lock_file)
                message = f"another agent has the ledger {sqlite_file(self._url)}"
                try:
                    self._held.enter_context(locked_file(self._lock_file, message=message, hint=HINT))
                except BadInput as problem:
                    raise CannotWrite(str(problem), hint=problem.hint) from None
                self._is_held = True

    def confirm(self) -> None:
        """Raise CannotWrite unless this agent may act now. A lock whose folder was missing is taken here."""
        self.acquire()

    def check(self, connection: Connection, *, to_act: bool = False) -> None:
        """Raise CannotWrite in the transaction of a writer that no longer has the lease, or soon ends `to_act`."""

    def end_frozen_process(self) -> None:
        """From now on a process that was stopped until after its lease ends before any of its code runs on."""

    def state(self) -> LeaseState | None:
        """Return who acts, None for a lease that no other head node can have."""
        return None

    def close(self) -> None:
        """Release the lease."""
        with self._turn:
            # On a disk that has become read-only the text stays, and the lock ends with the process.
            with suppress(OSError):
                if self._is_held and self._lock_file.exists():
                    self._lock_file.write_text("")
            self._held.close()
            self._is_held = False


def _refuse_other_host(lock: Path) -> None:
    with suppress(OSError, UnicodeDecodeError):
        process, _, host = lock.read_text().strip().partition(" ")
        here, kind = socket.gethostname(), file_system_of(lock, Path("/proc/self/mountinfo").read_text().splitlines())
        if host and host != here and kind.startswith(NETWORK_FILE_SYSTEMS):
            message = (
                f"{lock}: the agent of {host} (process {process}) has this ledger, on a disk that hosts share ({kind})"
            )
            raise AlreadyRunning(message, hint=f"{PAIR_HINT}; if {host} is down for good, remove {lock.name}")


def file_system_of(path: Path, mounts: Iterable[str]) -> str:
    """Return the type of the file system by the lines of /proc/self/mountinfo, such as "nfs4"."""
    found = [(fields[4], line.partition(" - ")[2].split()[0]) for line in mounts if len(fields := line.split()) > 6]
    there = [(len(point), kind) for point, kind in found if path.resolve().is_relative_to(point)]
    return max(there, default=(0, ""))[1]


def host_text(holder: str) -> str:
    """Return "h1 (process 12)" for a holder, "no agent" for ""."""
    host, _, process = holder.removeprefix("offpeak ").rpartition(" ")[0].rpartition(" ")
    return f"{host} (process {process})" if host else "no agent"


class DatabaseLease(Lease):
    """A row of PostgreSQL that ends `lease_s` after its last renewal. A thread renews it once it is taken."""

    def __init__(self, url: str, lease_s: float, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(url)
        self._lease_s, self._clock = lease_s, clock
        # PostgreSQL keeps 63 bytes of the name, under which all connections of this process are known there.
        self.holder = f"offpeak {socket.gethostname()[:36]} {os.getpid()} {secrets.token_hex(4)}"
        self._ended, self._look = False, Event()
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._token, self._from_s, self._until_s = 0, 0.0, 0.0
        self._timeline, self._seen, self._seen_until_s = 0, (0, 0.0), 0.0
        self._other = self._problem = self.lost_to = ""
        self._standby, self._standby_until_s = "", 0.0

    def acquire(self, *, stands_by: bool = False) -> None:
        """Take the lease once it has ended by the clock of the database; see Lease."""
        with self._turn:
            if self._token:
                return
            try:
                self._take(self._read(), stands_by=stands_by)
            except DBAPIError as problem:
                self._other = ""
                raise self._failed(problem) from problem
            except OffpeakError:
                if not stands_by:
                    self._let_go()
                raise
        Thread(target=self._keep, name="lease", daemon=True).start()

    def confirm(self) -> None:
        """Raise CannotWrite unless the lease is valid by this machine's clock; see Lease."""
        if not self.acts_for_s:
            raise CannotWrite(self.state().text, hint=RETRY_HINT)

    def check(self, connection: Connection, *, to_act: bool = False) -> None:
        """Check the token in the database, and keep it until the transaction ends; see Lease."""
        if not self._token:
            return
        left_s = connection.execute(CHECK, self._values).scalar()
        if left_s is None or (to_act and left_s < MARGIN * self._lease_s):
            self._look.set()
            raise CannotWrite(f"{ledger_address(self._url)}: this agent's lease has ended", hint=RETRY_HINT)

    @property
    def acts_for_s(self) -> float:  # type: ignore[override]
        """For how long the lease is valid, with a margin, by this machine's clock; 0 if it is not."""
        now_s = boot_s()
        if not self._token or self.lost_to or now_s < self._from_s:
            return 0.0
        return max(0.0, self._until_s - MARGIN * self._lease_s - now_s)

    def end_frozen_process(self) -> None:
        """Let a timer of the kernel end the process by SIGALRM at the end of the lease; see Lease.

        A check of the lease in this process cannot do it: the process may be stopped between the check and the packet.
        """
        Thread(target=self._watch_end, name="end of the lease", daemon=True).start()

    def _watch_end(self) -> None:
        while not self._ended and not self.lost_to:
            left_s = self._until_s - boot_s()
            # In the margin before its end no order passes the check, and this process lives on if it runs. For half of
            # the margin the timer stays: an order that has passed just before may not have left yet.
            armed_s = left_s - MARGIN / 2 * self._lease_s
            signal.setitimer(signal.ITIMER_REAL, left_s if armed_s > 0 else 0.0)
            most_s = self._lease_s / POLLS
            time.sleep(min(armed_s, most_s) if armed_s > 0 else most_s)
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def state(self) -> LeaseState:
        """Return who acts and who stands by, as far as this agent knows."""
        here, now_s = socket.gethostname(), boot_s()
        has_standby = self._standby not in ("", self.holder) and now_s < self._standby_until_s
        if self.acts_for_s:
            others = f"{host_text(self._standby) if has_standby else 'no other agent'} stands by"
            return LeaseState(f"{here} is active; {others}", True, has_standby)
        if self._token and now_s < self._from_s:
            text = f"{here} waits for {self._from_s - now_s:.0f} s: the database has failed over"
        elif self._token or not self._other:
            text = f"{here} gives no order: {self._problem or 'its lease has ended'}"
        else:
            text = f"{here} stands by; {self._other} is active"
        return LeaseState(text, False, bool(self._other) and not self._token)

    def close(self) -> None:
        """Release the lease at once, for an agent that stands by."""
        if self._turn.acquire(timeout=LET_GO_S):
            try:
                self._ended = True
                self._look.set()
                if self._token and self._connection is not None:
                    with suppress(DBAPIError):
                        self._connection.execute(RELEASE, self._values)
                self._let_go()
            finally:
                self._turn.release()

    @property
    def _values(self) -> dict[str, Any]:
        return {"holder": self.holder, "token": self._token, "lease_s": self._lease_s}

    def _read(self) -> Any:
        """Return the row; make the tables if there are none."""
        if self._connection is None:
            # A statement that waits longer than this would be of no use to a lease.
            self._engine = claiming_engine(self._url, self.holder, patience_s=self._lease_s / POLLS)
            self._timeline = max(self._timeline, *timelines(self._engine))
            self._connection = self._engine.connect()
            if not inspect(self._connection).has_table("lease"):
                engine = writing_engine(self._url)
                prepare_schema(engine, self._url)
                engine.dispose()
        row = self._connection.execute(READ).one()
        if row.present < self._timeline:
            # By its lease this agent could be the second one that acts.
            self._let_go()
            failed = f"a server that had failed accepts writes (timeline {row.present}, another has {self._timeline})"
            self._other, self._problem = "", f"{ledger_address(self._url)}: {failed}"
            raise CannotWrite(self._problem, hint="stop it, or make it a replica")
        self._timeline = row.present
        if self._seen != (row.token, row.until_unix_s):
            self._seen, self._seen_until_s = (row.token, row.until_unix_s), boot_s() + min(row.left_s, LONGEST_S)
        return row

    def _take(self, row: Any, *, stands_by: bool) -> None:
        connection = self._connection
        assert connection is not None
        values = {"holder": self.holder, "token": row.token, "lease_s": self._lease_s, "until_unix_s": row.until_unix_s}
        # A clock of the database that goes back does not keep the lease of an agent that is dead.
        if row.left_s > 0 and boot_s() < self._seen_until_s and row.holder != self.holder:
            self._other, self._problem = host_text(row.holder), ""
            if stands_by:
                connection.execute(STAND_BY, values)
            message = f"the agent of {self._other} is active, by the ledger {ledger_address(self._url)}"
            raise AlreadyRunning(message, hint=f"give the order on {self._other.partition(' ')[0]}")
        self._other = ""
        ahead_s = self._clock() - row.now
        if abs(ahead_s) > CLOCK_S:
            self._problem = (
                f"its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the database's"
            )
            raise CannotWrite(f"{socket.gethostname()}: {self._problem}", hint="synchronise both: `chronyc tracking`")
        if row.holder and row.holder != self.holder:
            # A transaction of a holder that is frozen would keep its row, or be committed after that.
            with suppress(DBAPIError):
                connection.execute(END, {"holder": row.holder})
        begun_s = boot_s()
        taken = connection.execute(TAKE, values).first()
        if taken is None:
            raise CannotWrite("another agent has just taken the lease", hint="it is tried again")
        # The failed database may have known a later holder, whose lease ends within this time.
        hold_off_s = 0.0 if row.timeline in (0, taken.timeline) else self._lease_s
        self._from_s, self._until_s = begun_s + hold_off_s, begun_s + self._lease_s
        self._token, self._problem = taken.token, ""

    def _keep(self) -> None:
        """Renew the lease until it is released or lost."""
        pause_s = self._lease_s / RENEWALS
        while not self._ended and not self.lost_to:
            self._look.wait(pause_s)
            self._look.clear()
            with self._turn:
                if self._ended:
                    return
                try:
                    self._renew()
                    pause_s = self._lease_s / RENEWALS
                except DBAPIError as problem:
                    self._problem = str(self._failed(problem))
                    pause_s = self._lease_s / POLLS
                except OffpeakError as problem:
                    self._problem, pause_s = str(problem), self._lease_s / POLLS
                except Exception as problem:
                    # A row that a restore of the database brings back soon must find this thread alive.
                    self._let_go()
                    self._problem, pause_s = f"{type(problem).__name__}: {problem}", self._lease_s / POLLS

    def _renew(self) -> None:
        row = self._read()
        if (row.token, row.holder) != (self._token, self.holder):
            self.lost_to = host_text(row.holder)
            return
        begun_s = boot_s()
        assert self._connection is not None
        renewed = self._connection.execute(RENEW, self._values).first()
        if renewed is None:
            # The timeline has changed, or another agent was faster: the next round tells.
            self._take(row, stands_by=False)
            return
        self._until_s, self._problem = begun_s + self._lease_s, ""
        self._standby, self._standby_until_s = renewed.standby, begun_s + self._lease_s - renewed.standby_age_s

    def _failed(self, problem: DBAPIError) -> CannotWrite:
        self._let_go()
        self._problem = (
            f"{ledger_address(self._url)}: {next(iter(str(problem.orig).strip().splitlines()), type(problem).__name__)}"
        )
        return CannotWrite(self._problem, hint=RETRY_HINT)

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
        if self._engine is not None:
            self._engine.dispose()
        self._connection = self._engine = None


def timelines(engine: Engine) -> list[int]:
    """Return the timeline of each server that accepts writes, [0] for an address with one server.

    There are two if a replica was promoted, and the server that had failed was started again.
    """
    _, where = engine.dialect.create_connect_args(engine.url)
    hosts, ports = (str(where.get(name) or "").split(",") for name in ("host", "port"))
    found = [0]
    for number, host in enumerate(hosts if len(hosts) > 1 else ()):
        one = {"host": host, "port": ports[min(number, len(ports) - 1)], "connect_timeout": 2}
        with (
            suppress(engine.dialect.loaded_dbapi.Error),
            closing(engine.dialect.connect(**{**where, **one})) as connection,
            closing(connection.cursor()) as cursor,
        ):
            cursor.execute(f"SELECT {_TIMELINE}")
            found += cursor.fetchone() or ()
    return found
