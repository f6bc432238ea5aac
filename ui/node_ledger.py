"""Node states, holds and actions for the commands: the ledger that the settings name."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from offpeak.door.effect import Hold
from offpeak.errors import CannotWrite
from offpeak.ledger import journal as held
from offpeak.ledger.database import open_ledger, sqlite_file
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.records import latest_states
from offpeak.ledger.rows import NodeStateRecord
from offpeak.settings.ledger import LedgerSettings


@contextmanager
def open_ledger_to_write(settings: LedgerSettings) -> Iterator[Ledger]:
    """Open the ledger, and create it if there is none; raise CannotWrite or BadLedger on failure or lost rows."""
    ledger = Ledger(settings)
    try:
        ledger.ready()
        yield ledger
    finally:
        lost = ledger.close()
    if lost:
        raise CannotWrite(
            f"{lost} rows did not reach the ledger",
            hint="`offpeak ledger actions` shows the recorded ones; check the disk: df -h",
        )


def read_latest_states(settings: LedgerSettings) -> tuple[Mapping[str, NodeStateRecord], Mapping[str, Hold]]:
    """Return the last recorded state of each node, and the holds, by node; nothing if there is no ledger yet."""
    file = sqlite_file(settings.url)
    if file and not file.exists():
        return {}, {}
    with open_ledger(settings.url) as connection:
        return latest_states(connection), held.open_holds(connection, time.time())
