"""What `offpeak history` answers: decisions and actions in one list, newest first."""

import time
from collections.abc import Mapping
from typing import Any

import typer
from rich.table import Table

from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import actions_in, decisions_in, last_written_unix_s
from offpeak.machines.node_sets import expand
from offpeak.model.local_time import machine_zone, parse_range
from offpeak.settings.ledger import LedgerSettings
from offpeak.text import printable
from ui.ledger.rows import rows_json, with_times
from ui.ledger.text import clock, print_nothing, print_table

WORDS = ("job ", "queue")
HEADERS = ("time", "about", "what", "by", "result", "why")

Event = Mapping[str, Any]


def print_history(
    settings: LedgerSettings, span_words: tuple[str | None, str | None], subject: str | None, *, as_json: bool
) -> None:
    """Print what happened in the time between two words of `sacct`; BadInput for what is no time or node set."""
    zone = machine_zone()
    span = parse_range(*span_words, now_unix_s=time.time(), zone=zone)
    subjects = subjects_of(subject)
    with open_ledger(settings.url) as connection:
        decided = [_decided(each) for each in decisions_in(connection, span, subjects)]
        done = [_done(each) for each in actions_in(connection, span, subjects)]
        latest_unix_s = None if decided or done else last_written_unix_s(connection)
    events = sorted(decided + done, key=lambda each: float(each["at_unix_s"]), reverse=True)
    if as_json:
        typer.echo(rows_json([with_times(each, zone) for each in events]), nl=False)
    elif events:
        table = Table(*HEADERS, box=None, pad_edge=False, header_style="bold")
        for each in events:
            words = (each[key] for key in ("subject", "what", "by", "result", "why"))
            table.add_row(clock(each["at_unix_s"], zone), *map(printable, words))
        print_table(table)
    else:
        print_nothing(span, zone, latest_unix_s)


def subjects_of(text: str | None) -> tuple[str, ...]:
    """Return the subjects of these words: a job and the queue as they are, else the nodes; () for all."""
    if text is None:
        return ()
    return (text,) if text.startswith(WORDS) else expand(text)


def _decided(record: Event) -> dict[str, Any]:
    return {
        "at_unix_s": record["at_unix_s"],
        "subject": record["subject"],
        "what": record["decided"],
        "by": "offpeak",
        "result": "decided",
        "why": record["reason"],
        "inputs": record["inputs"],
    }


def _done(record: Event) -> dict[str, Any]:
    rule = f" by {record['rule']}" if record["rule"] else ""
    return {
        "at_unix_s": record["at_unix_s"],
        "subject": record["subject"],
        "what": record["order"],
        "by": record["by"],
        "result": record["result"] + rule,
        "why": "; ".join(filter(None, (record["reason"], record["said"]))),
        "inputs": record["inputs"],
    }
