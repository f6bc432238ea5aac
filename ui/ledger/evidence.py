"""Answers `offpeak ledger bundle` and `offpeak verify`: the evidence of a month, and what it proves."""

import os
import stat
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.table import Table

from offpeak.display import amount_text, minute_text
from offpeak.files import check_writable, replacing
from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.database import ledger_address, open_ledger
from offpeak.ledger.marks import read_memory
from offpeak.ledger.prune import RETENTION_RULES, keep_s
from offpeak.ledger.seals import KEY_NAME, SEALED_TABLES, broken_links, read_rows, read_seals
from offpeak.model.time_range import TimeRange
from offpeak.prices.tariff_file import read_source
from offpeak.settings.kinds import SettingValue
from offpeak.settings.table import Settings
from offpeak.text import counted
from predictors.feeds.markets import site_zone
from services.accounts.evidence import IN_ALL, Examination, Figures, changes_in, examine_bundle, make_bundle
from ui.month.subject import month_of
from ui.terminal import print_table, say_written, text_table

SHOWN = 12
"""Changes and different figures that are listed, so that the answer fits a screen."""
OF_FIGURES = ("prices.", "carbon.", "power.", "machine.", "scheduling.", "capacity.", "plan.")


def write_bundle(month: str | None, file: Path, values: Mapping[str, SettingValue], *, anonymise: bool) -> None:
    """Write the evidence of a month; the present month up to the last complete quarter-hour."""
    check_writable(file, example="november.zip")
    settings = Settings.of(values)
    zone = site_zone(settings.feeds.zone)
    span = month_of(month, now_unix_s=time.time(), zone=zone).span
    whole = TimeRange(span.from_unix_s, span.until_unix_s // QUARTER_S * QUARTER_S)
    written = {name: value.written for name, value in values.items() if name.startswith(OF_FIGURES)}
    tariff = read_source(settings.prices.tariff) if settings.prices.tariff else None
    with open_ledger(settings.ledger.url) as connection:
        content = make_bundle(connection, whole, zone, written, tariff=tariff, anonymise=anonymise)
    with replacing(file) as opened:
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            # It names users and their jobs, as the ledger does.
            os.fchmod(opened.fileno(), 0o600)
        opened.write(content)
    say_written(file)


def verify_bundle(file: Path) -> None:
    """Print what a bundle proves; exit with 1 if a row was changed or a figure differs."""
    found = examine_bundle(file)
    last = found.chain[-1] if found.chain else None
    start, end = (minute_text(each, found.zone) for each in (found.span.from_unix_s, found.span.until_unix_s))
    names = ", without names" if found.is_anonymised else ""
    typer.echo(f"{start} to {end}, {found.zone}: made by offpeak {found.made_by}, {counted(found.rows, 'row')}{names}")
    typer.echo(
        f"sealed: {counted(len(found.chain), 'day')}, digest of the last {last.digest if last else 'not known'}\n"
    )
    print_table(_figures_table(found))
    typer.echo()
    for gap in found.gaps:
        typer.echo(f"- {gap}")
    different = [
        f"{name}: printed {_text(found.printed, name)}, computed {_text(found.computed, name)}"
        for name in found.different
    ]
    _conclude([*found.changes, *different], "no row was changed, and all figures are the same to the cent")


def _figures_table(found: Examination) -> Table:
    """Return a line for accounts, nodes and savings: how many figures, how many equal, and sums as computed."""
    rows = list[tuple[str, ...]]()
    different, kinds = set(found.different), defaultdict[str, list[str]](list)
    for name in dict.fromkeys((*found.printed, *found.computed)):
        kinds[name.partition(" ")[0]].append(name)
    for kind, names in kinds.items():
        computed = [found.computed[name] for name in names if name in found.computed and name != f"{kind} {IN_ALL}"]
        sums = [[each[key] for each in computed if each[key] is not None] for key in ("energy_kwh", "cost", "co2_kg")]
        texts = [amount_text(sum(filter(None, values)) if values else None) for values in sums]
        rows.append((kind, f"{len(names):,}", f"{len(names) - len(different & set(names)):,}", *texts))
    return text_table(("of each", "figures", "equal", "energy kWh", "cost", "CO2 kg"), rows)


def _text(figures: Figures, name: str) -> str:
    return ", ".join(f"{key} {amount_text(value)}" for key, value in figures.get(name, {}).items()) or "not at all"


def verify_ledger(whole: Settings) -> None:
    """Compare the rows of a ledger with its seals, as far as they are kept; exit with 1 if one was changed."""
    settings, zone = whole.ledger, site_zone(whole.feeds.zone)
    now_s, changes, rows = time.time(), list[str](), 0
    kept_s = {rule.table_name: keep_s(rule, settings) for rule in RETENTION_RULES}
    kept_s |= {"outcomes": kept_s["intents"], "trial_days": round(now_s)}
    with open_ledger(settings.url) as connection:
        chain, key = read_seals(connection), read_memory(connection, KEY_NAME) or ""
        changes += [f"the seal of {minute_text(seal.from_unix_s, zone)} was changed" for seal in broken_links(chain)]
        for seal in chain:
            for table in SEALED_TABLES:
                if seal.from_unix_s > now_s - kept_s[table.name]:
                    found = read_rows(connection, table, seal.span)
                    rows += len(found[table.at])
                    changes += changes_in(table, found, [seal], zone, key)
    typer.echo(f"{ledger_address(settings.url)}: {counted(len(chain), 'sealed day')}, {counted(rows, 'row')}")
    if chain:
        typer.echo(f"last sealed: until {minute_text(chain[-1].until_unix_s, zone)}, digest {chain[-1].digest}")
    _conclude(changes, "no row was changed since it was sealed" if chain else "nothing is sealed yet")


def _conclude(problems: list[str], good: str) -> None:
    for problem in problems[:SHOWN]:
        typer.echo(f"- {problem}")
    if len(problems) > SHOWN:
        typer.echo(f"- and {len(problems) - SHOWN:,} more")
    typer.echo(f"NOT VERIFIED: {counted(len(problems), 'difference')}" if problems else f"verified: {good}")
    if problems:
        raise typer.Exit(1)
