"""A private PostgreSQL for the tests that ask for one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from needed_programs import need

from benchmarks.local_slurm.postgres import PROGRAMS, PostgresServer
from benchmarks.local_slurm.postgres import new_postgres as _new_postgres


@contextmanager
def new_postgres() -> Iterator[PostgresServer]:
    """Make an empty cluster of databases."""
    need([PROGRAMS, "setpriv"], packages="postgresql")
    with _new_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this run; each makes a database of its own."""
    with new_postgres() as server, server.up():
        yield server
