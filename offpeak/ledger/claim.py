"""The claim on a ledger: two agents that share one would take each other's orders, marks and holds for their own.

The claim ends with its process, or with its connection: nothing that is left behind keeps a new agent out.
"""

import os
import secrets
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from offpeak.errors import BadInput, CannotWrite, OffpeakError
from offpeak.ledger.database import PATIENCE_S, claiming_engine, ledger_address, sqlite_file
from offpeak.process import AlreadyRunning, locked_file

CLASS, NUMBER = 1_868_981_872, 1
"""The keys of PostgreSQL's advisory lock, which belongs to the database that the agents share."""
TRY = text(f"SELECT pg_try_advisory_lock({CLASS}, {NUMBER})")
HOLDER = text(
    "SELECT pid, application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
    f" WHERE locktype = 'advisory' AND granted AND classid = {CLASS} AND objid = {NUMBER} AND objsubid = 2"
    " AND datname = current_database()"
)
END = text("SELECT pg_terminate_backend(:pid)")
ALIVE = text("SELECT 1")
LET_GO_S = 1.0
"""How long `close` waits for a query that hangs; the server releases the claim when the process ends."""
HINT = "one agent only acts by a ledger: url below [ledger] names another, or stop that agent"
RETRY_HINT = "no order is given until the database answers"


class Claim(Protocol):
    """The right to act by a ledger."""

    def confirm(self) -> None:
        """Make sure that the claim is held, and take it where it is free.

        Raises AlreadyRunning if another agent has it, CannotWrite where that cannot be found out.
        """

    def close(self) -> None:
        """Release the claim."""


def claim_of(url: str, *, patience_s: float = PATIENCE_S) -> Claim:
    """Return the claim on a ledger, which is not held yet."""
    file = sqlite_file(url)
    return FileClaim(file) if file else DatabaseClaim(url, patience_s=patience_s)


class FileClaim:
    """A locked file beside the database: SQLite's own locks are short."""

    def __init__(self, file: Path) -> None:
        self._file, self._held = file, ExitStack()
        self._is_held, self._turn = False, Lock()

    def confirm(self) -> None:
        """Take the lock; see Claim."""
        with self._turn:
            if not self._is_held:
                lock = self._file.with_name(f"{self._file.name}.lock")
                message = f"another agent has the ledger {self._file}"
                try:
                    self._held.enter_context(locked_file(lock, message=message, hint=HINT))
                except BadInput as problem:
                    raise CannotWrite(str(problem), hint=problem.hint) from None
                self._is_held = True

    def close(self) -> None:
        """Release the claim."""
        with self._turn:
            self._held.close()
            self._is_held = False


class DatabaseClaim:
    """An advisory lock of PostgreSQL, held by a connection of its own: where that is lost, so is the lock."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        self._url, self._patience_s, self._turn = url, patience_s, Lock()
        # PostgreSQL keeps 63 bytes of the name.
        self._name = f"offpeak agent {os.getpid()} on {socket.gethostname()[:24]} {secrets.token_hex(4)}"
        self._last_error, self._retry_at_s = "", 0.0
        self._engine: Engine | None = None
        self._connection: Connection | None = None

    def confirm(self) -> None:
        """Query over the connection that has the lock, or take the lock again; see Claim."""
        with self._turn:
            if self._is_alive():
                return
            if time.monotonic() < self._retry_at_s:
                raise CannotWrite(self._last_error, hint=RETRY_HINT)
            self._let_go()
            began_s = time.monotonic()
            try:
                self._take()
            except DBAPIError as problem:
                self._let_go()
                message = next(iter(str(problem.orig).strip().splitlines()), type(problem).__name__)
                self._last_error = f"{ledger_address(self._url)}: {message}"
                # Orders for many nodes follow each other: they do not all wait.
                self._retry_at_s = 2 * time.monotonic() - began_s
                raise CannotWrite(self._last_error, hint=RETRY_HINT) from problem
            except OffpeakError:
                self._let_go()
                raise

    def close(self) -> None:
        """Release the claim."""
        if self._turn.acquire(timeout=LET_GO_S):
            try:
                self._let_go()
            finally:
                self._turn.release()

    def _is_alive(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.execute(ALIVE)
        except DBAPIError:
            return False
        return True

    def _take(self) -> None:
        self._engine = claiming_engine(self._url, self._name, patience_s=self._patience_s)
        self._connection = self._engine.connect()
        until_s = time.monotonic() + self._patience_s
        while not self._connection.execute(TRY).scalar():
            holder = self._connection.execute(HOLDER).first()
            if holder is not None and holder.application_name == self._name:
                # A lost connection of this process that the server still counts as open.
                self._connection.execute(END, {"pid": holder.pid})
            elif holder is not None:
                message = f"another agent has the ledger {ledger_address(self._url)}: {holder.application_name}"
                raise AlreadyRunning(message, hint=HINT)
            if time.monotonic() > until_s:
                raise CannotWrite(
                    f"{ledger_address(self._url)}: an agent has just ended there", hint="it is tried again"
                )
            time.sleep(0.05)

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
        if self._engine is not None:
            self._engine.dispose()
        self._connection = self._engine = None
