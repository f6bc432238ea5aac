"""`offpeak ledger`: decisions, actions, node states, energy, cost and savings."""

import re
from pathlib import Path
from typing import Annotated

import typer

from offpeak.errors import BadInput
from offpeak.ui.options import END, JSON, MONTH, NODES, START, CommandSettings, settings_options
from offpeak.ui.parameters import PlainCommand, PlainGroup

ledger = typer.Typer(
    cls=PlainGroup, no_args_is_help=False, rich_markup_mode=None, help="Read the ledger, shorten it, copy it."
)

CSV = Annotated[bool, typer.Option("--csv", help="Print CSV instead of text.")]
BY = Annotated[
    str, typer.Option("--by", help="Groups: day and node by meters, or day, user, account and partition by jobs.")
]
in_ledger = settings_options("ledger.url")


def _of_nodes(records: str, about: str) -> None:
    """Add the command that prints these records of nodes."""

    @ledger.command(records, help=about, cls=PlainCommand)
    @in_ledger
    def show(
        chosen: CommandSettings,
        nodes: NODES = None,
        start: START = None,
        end: END = None,
        as_json: JSON = False,
        as_csv: CSV = False,
    ) -> None:
        _print_records(records, nodes, (start, end), chosen, _form(as_json, as_csv))


def _of_accounts(records: str, about: str) -> None:
    """Add the command that prints these records of levers or accounts."""

    @ledger.command(records, help=about, cls=PlainCommand)
    @in_ledger
    def show(
        chosen: CommandSettings, start: START = None, end: END = None, as_json: JSON = False, as_csv: CSV = False
    ) -> None:
        _print_records(records, None, (start, end), chosen, _form(as_json, as_csv))


def _of_use(quantity: str, about: str) -> None:
    """Add the command that sums this quantity by groups."""

    @ledger.command(quantity, help=about, cls=PlainCommand)
    @in_ledger
    def show(
        chosen: CommandSettings,
        by: BY = "day",
        start: START = None,
        end: END = None,
        as_json: JSON = False,
        as_csv: CSV = False,
    ) -> None:
        form = _form(as_json, as_csv)
        from offpeak.ui.ledger.records import print_used

        print_used(quantity, by, (start, end), chosen.read(), form)


_of_nodes("decisions", "Show decisions about nodes, with reasons and their numbers.")
_of_nodes("actions", "Show orders to nodes with results; refused ones with the rule.")
_of_nodes("states", "Show observed and desired states of nodes, with reasons.")
_of_accounts("savings", "Show the savings, compared with a baseline.")
_of_accounts("credits", "Show what the tiers of each account moved, and its credits.")
_of_use("energy", "Show the energy used, and the share of time with readings.")
_of_use("cost", "Show the cost of energy at the prices of the time, and CO2.")


@ledger.command("trial", cls=PlainCommand)
@in_ledger
def trial(chosen: CommandSettings, as_json: JSON = False) -> None:
    """Show the on/off days of the last trial, and their saving."""
    from offpeak.ui.agent.history import print_trial

    print_trial(chosen.read().ledger, as_json=as_json)


@ledger.command("prune", cls=PlainCommand)
@settings_options("ledger.keep_readings", "ledger.keep_minutes", "ledger.url")
def prune(chosen: CommandSettings) -> None:
    """Delete rows older than their table keeps. The energy of nodes stays the same."""
    from offpeak.ui.ledger.records import prune_ledger

    prune_ledger(chosen.read().ledger)


@ledger.command("backup", cls=PlainCommand)
@in_ledger
def backup(
    chosen: CommandSettings, file: Annotated[Path, typer.Argument(help="New file for the copy of a SQLite ledger.")]
) -> None:
    """Write a complete copy while the agent runs."""
    from offpeak.ui.ledger.records import back_up

    back_up(chosen.read().ledger, file)


@ledger.command("export", cls=PlainCommand)
@in_ledger
def export(
    chosen: CommandSettings,
    folder: Annotated[Path, typer.Argument(help="Folder for the files, such as readings.")],
    start: START = None,
    end: END = None,
) -> None:
    """Write each day of minutes and quarter-hours as Parquet."""
    from offpeak.ui.ledger.records import export_means

    export_means(chosen.read().ledger, folder, (start, end))


@ledger.command("bundle", cls=PlainCommand)
@in_ledger
def bundle(
    chosen: CommandSettings,
    file: Annotated[Path, typer.Argument(help="New zip file, such as november.zip.")],
    month: MONTH = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Write pseudonyms in place of names of people, and of texts by them.")
    ] = False,
) -> None:
    """Write the evidence of a month, for `offpeak verify`. It runs on any machine."""
    from offpeak.ui.ledger.evidence import write_bundle

    write_bundle(month, file, chosen.read(), anonymise=anonymise)


@in_ledger
def verify(
    chosen: CommandSettings,
    bundle: Annotated[
        Path | None,
        typer.Argument(
            help="File of `offpeak ledger bundle`. [default: the ledger of this site]",
            metavar="[BUNDLE]",
            show_default=False,
        ),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", help="Digest of the month report, kept outside of the ledger.", show_default=False),
    ] = None,
) -> None:
    """Compute the figures of a bundle again. Show any row that was changed after its day was sealed.

    The exit code is 0 if all is proven, 1 if something is false, 3 if something is not proven, 2 for bad input.
    """
    if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest := digest.strip().lower()):
        raise BadInput(
            f"--digest {digest}: is not a digest", hint="it has 64 hexadecimal digits, as in `offpeak report`"
        )
    from offpeak.ui.ledger.evidence import verify_bundle, verify_ledger

    if bundle is None:
        verify_ledger(chosen.read(), digest)
    else:
        verify_bundle(bundle, digest)


def _print_records(
    kind: str, nodes: str | None, times: tuple[str | None, str | None], chosen: CommandSettings, form: str
) -> None:
    from offpeak.ui.ledger.records import print_records

    print_records(kind, nodes, times, chosen.read(), form)


def _form(as_json: bool, as_csv: bool) -> str:
    if as_json and as_csv:
        raise BadInput("--json and --csv cannot be combined", hint="give one of them")
    return "json" if as_json else "csv" if as_csv else "text"
