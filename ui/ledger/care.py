"""What `offpeak ledger prune` and `backup` do."""

import time
from pathlib import Path

import typer

from offpeak.ledger.database import back_up_ledger, ledger_address, require_ledger_file
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings
from offpeak.text import counted


def prune_ledger(settings: LedgerSettings) -> None:
    """Delete what is older than the settings keep, and say how much that was."""
    require_ledger_file(settings.url)
    ledger = Ledger(settings)
    try:
        ledger.ready()
        deleted = ledger.prune(time.time())
    finally:
        ledger.close()
    typer.echo(f"{ledger_address(settings.url)}: {counted(deleted, 'row')} deleted")


def back_up(settings: LedgerSettings, file: Path) -> None:
    """Write the copy, and say how large it is."""
    require_ledger_file(settings.url)
    back_up_ledger(settings.url, file)
    typer.echo(f"{file}: a copy of {ledger_address(settings.url)}, {file.stat().st_size / 1e6:,.1f} MB")
