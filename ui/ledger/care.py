"""What `offpeak ledger prune` and `backup` do."""

import time
from pathlib import Path

import typer

from offpeak.ledger.backup import backup
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.opened import must_be_there
from offpeak.ledger.place import place_text
from offpeak.ledger_settings import LedgerSettings
from offpeak.plural import counted


def prune_ledger(settings: LedgerSettings) -> None:
    """Delete what is older than the settings keep, and say how much that was."""
    must_be_there(settings.url)
    ledger = Ledger(settings)
    try:
        ledger.ready()
        deleted = ledger.prune(time.time())
    finally:
        ledger.close()
    typer.echo(f"{place_text(settings.url)}: {counted(deleted, 'row')} deleted")


def back_up(settings: LedgerSettings, file: Path) -> None:
    """Write the copy, and say how large it is."""
    must_be_there(settings.url)
    backup(settings.url, file)
    typer.echo(f"{file}: a copy of {place_text(settings.url)}, {file.stat().st_size / 1e6:,.1f} MB")
