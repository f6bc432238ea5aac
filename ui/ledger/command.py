"""`offpeak ledger`: decisions, actions, node states, energy, cost and savings."""

import os
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.settings.file import read_values, settings_path
from offpeak.settings.table import Settings
from ui.options import CONFIG, END, START, option
from ui.parameters import PlainCommand, PlainGroup
from ui.requests import LedgerQuery

ledger = typer.Typer(
    cls=PlainGroup, no_args_is_help=False, rich_markup_mode=None, help="Read the ledger, shorten it, copy it."
)

NODES = Annotated[
    str | None,
    typer.Argument(metavar="[NODES]", help="Node set, such as n[001-064]. [default: all]", show_default=False),
]
URL = Annotated[str | None, option("ledger.url")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")]
CSV = Annotated[bool, typer.Option("--csv", help="Print CSV instead of the table.")]
BY = Annotated[
    str, typer.Option("--by", help="Groups: day and node by meters, or day, user, account and partition by jobs.")
]


def _of_nodes(records: str, about: str) -> None:
    """Add the command that prints these records of nodes."""

    @ledger.command(records, help=about, cls=PlainCommand)
    def ask(
        nodes: NODES = None,
        start: START = None,
        end: END = None,
        as_json: JSON = False,
        as_csv: CSV = False,
        url: URL = None,
        config: CONFIG = None,
    ) -> None:
        _print_records(records, nodes, _ledger_query(start, end, as_json, as_csv), _settings(config, url))


def _of_accounts(records: str, about: str) -> None:
    """Add the command that prints these records of levers or accounts."""

    @ledger.command(records, help=about, cls=PlainCommand)
    def ask(
        start: START = None,
        end: END = None,
        as_json: JSON = False,
        as_csv: CSV = False,
        url: URL = None,
        config: CONFIG = None,
    ) -> None:
        _print_records(records, None, _ledger_query(start, end, as_json, as_csv), _settings(config, url))


def _of_use(quantity: str, about: str) -> None:
    """Add the command that sums this quantity by groups."""

    @ledger.command(quantity, help=about, cls=PlainCommand)
    def ask(
        by: BY = "day",
        start: START = None,
        end: END = None,
        as_json: JSON = False,
        as_csv: CSV = False,
        url: URL = None,
        config: CONFIG = None,
    ) -> None:
        _print_used(quantity, by, _ledger_query(start, end, as_json, as_csv), _settings(config, url))


_of_nodes("decisions", "Show decisions about nodes, with reasons and the numbers behind them.")
_of_nodes("actions", "Show orders to nodes with their results, and refused orders with the rule.")
_of_nodes("states", "Show observed and desired states of nodes, with time, author and reason.")


_of_accounts("savings", "Show the savings, compared with a baseline.")
_of_accounts("credits", "Show what the flexibility tiers of each account moved and saved, and its credits.")
_of_use("energy", "Show the energy used, and the share of time with readings.")
_of_use("cost", "Show the cost of energy at the prices of the time, and its CO2.")


@ledger.command("trial", cls=PlainCommand)
def trial(as_json: JSON = False, url: URL = None, config: CONFIG = None) -> None:
    """Show the drawn on/off days of the last trial, and the saving that they have measured so far."""
    from ui.agent.ledger_answer import print_trial

    print_trial(_settings(config, url).ledger, as_json=as_json)


@ledger.command("prune", cls=PlainCommand)
def prune(
    keep_readings: Annotated[str | None, option("ledger.keep_readings")] = None,
    keep_minutes: Annotated[str | None, option("ledger.keep_minutes")] = None,
    url: URL = None,
    config: CONFIG = None,
) -> None:
    """Delete rows that are older than their table keeps; the energy of nodes stays the same."""
    settings = _settings(config, url, keep_readings, keep_minutes)
    from ui.ledger.answer import prune_ledger

    prune_ledger(settings.ledger)


@ledger.command("backup", cls=PlainCommand)
def backup(
    file: Annotated[Path, typer.Argument(help="New file for the copy of a SQLite ledger.")],
    url: URL = None,
    config: CONFIG = None,
) -> None:
    """Write a complete copy while the agent runs."""
    settings = _settings(config, url)
    from ui.ledger.answer import back_up

    back_up(settings.ledger, file)


@ledger.command("bundle", cls=PlainCommand)
def bundle(
    file: Annotated[Path, typer.Argument(help="New zip file, such as november.zip.")],
    month: Annotated[
        str | None,
        typer.Option("--month", help="Month, such as 2026-11. [default: the last complete one]", show_default=False),
    ] = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Write pseudonyms in place of names of people, and of texts by them.")
    ] = False,
    url: URL = None,
    config: CONFIG = None,
) -> None:
    """Write the evidence of a month, for `offpeak verify` on any machine."""
    values = read_values(settings_path(config, os.environ), options={"ledger.url": url})
    from ui.ledger.evidence import write_bundle

    write_bundle(month, file, values, anonymise=anonymise)


def verify(
    bundle: Annotated[
        Path | None,
        typer.Argument(
            help="File of `offpeak ledger bundle`. [default: the ledger of this site]",
            metavar="[BUNDLE]",
            show_default=False,
        ),
    ] = None,
    url: URL = None,
    config: CONFIG = None,
) -> None:
    """Compute the figures of a bundle again, and show any row that was changed after its day was sealed."""
    from ui.ledger.evidence import verify_bundle, verify_ledger

    if bundle is None:
        verify_ledger(Settings.of(read_values(settings_path(config, os.environ), options={"ledger.url": url})))
    else:
        verify_bundle(bundle)


def _print_records(kind: str, nodes: str | None, query: LedgerQuery, settings: Settings) -> None:
    # What answers loads SQLAlchemy, which `offpeak --version` must not wait for.
    from ui.ledger.answer import print_records

    print_records(kind, nodes, query, settings)


def _print_used(kind: str, by: str, query: LedgerQuery, settings: Settings) -> None:
    from ui.ledger.answer import print_used

    print_used(kind, by, query, settings)


def _ledger_query(start: str | None, end: str | None, as_json: bool, as_csv: bool) -> LedgerQuery:
    if as_json and as_csv:
        raise BadInput("--json and --csv exclude each other", hint="give one of them")
    return LedgerQuery(start, end, "json" if as_json else "csv" if as_csv else "text")


def _settings(
    config: Path | None, url: str | None, keep_readings: str | None = None, keep_minutes: str | None = None
) -> Settings:
    options = {"ledger.url": url, "ledger.keep_readings": keep_readings, "ledger.keep_minutes": keep_minutes}
    return Settings.of(read_values(settings_path(config, os.environ), options=options))
