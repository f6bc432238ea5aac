"""Where commands find states, holds and actions: the ledger that the settings name."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from offpeak.door.hold import Hold
from offpeak.errors import CannotWrite
from offpeak.ledger import held
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.opened import opened
from offpeak.ledger.place import sqlite_file
from offpeak.ledger.records import latest_states
from offpeak.ledger.rows import Recorded
from offpeak.ledger_settings import LedgerSettings


@contextmanager
def book_to_write(settings: LedgerSettings) -> Iterator[Ledger]:
    """Give the ledger, begun if there is none; CannotWrite or BadLedger where that cannot be, or rows were lost."""
    ledger = Ledger(settings)
    try:
        ledger.ready()
        yield ledger
    finally:
        lost = ledger.close()
    if lost:
        raise CannotWrite(
            f"{lost} rows did not reach the ledger", hint="`offpeak ledger actions` shows what it has; df -h"
        )


def book_says(settings: LedgerSettings) -> tuple[Mapping[str, Recorded], Mapping[str, Hold]]:
    """Return what was written last of every node, and the holds, by node; nothing where no ledger was begun yet."""
    file = sqlite_file(settings.url)
    if file and not file.exists():
        return {}, {}
    with opened(settings.url) as connection:
        return latest_states(connection), held.holds(connection, time.time())
