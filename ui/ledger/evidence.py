"""Answers `offpeak ledger bundle` and `offpeak verify`: the evidence of a month, and what it proves."""

import os
import stat
import time
from collections import defaultdict
from pathlib import Path

import typer
from sqlalchemy import func, select

from offpeak.display import amount_text, minute_text
from offpeak.files import check_writable, replacing
from offpeak.ledger.database import ledger_address, open_ledger
from offpeak.ledger.marks import read_memory
from offpeak.ledger.prune import RETENTION_RULES, keep_s
from offpeak.ledger.seals import KEY_NAME, SEALED_TABLES, broken_links, read_rows, read_seals
from offpeak.ledger.tables import savings
from offpeak.model.constants import QUARTER_S
from offpeak.model.time_range import TimeRange
from offpeak.predictors.feeds.markets import site_zone
from offpeak.prices.tariff_file import read_source
from offpeak.services.accounts.evidence import IN_ALL, Figures, make_bundle
from offpeak.services.accounts.examination import Examination, Verdict, changes_in, check_digest, examine_bundle, judge
from offpeak.settings.table import Settings
from offpeak.text import counted
from offpeak.ui.month.subject import month_of
from offpeak.ui.terminal import TextTable, print_table, say_written, text_table

SHOWN = 12
"""Changes and different figures that are listed, so that the answer fits a screen."""


def write_bundle(month: str | None, file: Path, settings: Settings, *, anonymise: bool) -> None:
    """Write the evidence of a month; the present month up to the last complete quarter-hour."""
    check_writable(file, example="november.zip")
    zone = site_zone(settings.feeds.zone)
    span = month_of(month, now_unix_s=time.time(), zone=zone).span
    whole = TimeRange(span.from_unix_s, span.until_unix_s // QUARTER_S * QUARTER_S)
    tariff = read_source(settings.prices.tariff) if settings.prices.tariff else None
    with open_ledger(settings.ledger.url) as connection:
        content = make_bundle(connection, whole, zone, tariff=tariff, anonymise=anonymise)
    with replacing(file) as opened:
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            # It names users and their jobs, as the ledger does.
            os.fchmod(opened.fileno(), 0o600)
        opened.write(content)
    say_written(file)


def verify_bundle(file: Path, digest: str | None) -> None:
    """Print what a bundle proves; exit with the verdict, 1 if something differs, 3 if something is not proven."""
    found = examine_bundle(file, digest)
    start, end = (minute_text(each, found.zone) for each in (found.span.from_unix_s, found.span.until_unix_s))
    names = ", without names" if found.is_anonymised else ""
    typer.echo(f"{start} to {end}, {found.zone}: {counted(found.rows, 'row')}{names}")
    last = f", the last by {found.sealed_by}, digest {found.chain[-1].digest}" if found.chain else ""
    typer.echo(f"sealed: {counted(len(found.chain), 'day')}{last}\n")
    print_table(_figures_table(found))
    typer.echo()
    for gap in found.gaps:
        typer.echo(f"- {gap}")
    different = [
        f"{name}: printed {_text(found.printed, name)}, computed {_text(found.computed, name)}"
        for name in found.different
    ]
    good = "rows and settings are those of the digest, and all figures are the same to the cent"
    _conclude([*found.changes, *different], found.open_points, good)


def _figures_table(found: Examination) -> TextTable:
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


def verify_ledger(whole: Settings, digest: str | None) -> None:
    """Compare the rows of a ledger with its seals, as far as they are kept; exit with the verdict as for a bundle."""
    settings, zone = whole.ledger, site_zone(whole.feeds.zone)
    now_s, changes, rows = time.time(), list[str](), 0
    kept_s = {rule.table_name: keep_s(rule, settings) for rule in RETENTION_RULES}
    kept_s |= {"outcomes": kept_s["intents"], "trial_days": round(now_s)}
    with open_ledger(settings.url) as connection:
        chain, key = read_seals(connection), read_memory(connection, KEY_NAME) or ""
        changes += [f"the seal of {minute_text(seal.from_unix_s, zone)} was changed" for seal in broken_links(chain)]
        if chain and chain[0].previous:
            changes.append(f"the seals before {minute_text(chain[0].from_unix_s, zone)} are missing")
        for seal in chain:
            for table in SEALED_TABLES:
                if seal.from_unix_s > now_s - kept_s[table.name]:
                    found = read_rows(connection, table, seal.span)
                    rows += len(found[table.at])
                    changes += changes_in(table, found, [seal], zone, key)
        end_s, of = chain[-1].until_unix_s if chain else 0.0, savings.c
        # A saving counts where it begins, and is sealed where it ends.
        reaching = select(func.count()).where(of.from_unix_s < end_s, of.until_unix_s > end_s)
        unsealed = int(connection.execute(reaching).scalar_one())
    typer.echo(f"{ledger_address(settings.url)}: {counted(len(chain), 'sealed day')}, {counted(rows, 'row')}")
    if chain:
        typer.echo(f"last sealed: until {minute_text(chain[-1].until_unix_s, zone)}, digest {chain[-1].digest}")
    digests = [seal.digest for seal in chain]
    # Later days are sealed after the digest was kept.
    fixed = chain[: digests.index(digest) + 1] if digest in digests else chain
    contradicted, open_points = check_digest(fixed, digest, zone)
    if not chain:
        open_points.append("nothing is sealed yet: the agent seals each day 30 h after its end")
    if unsealed:
        open_points.append(f"no seal is over {counted(unsealed, 'row')} of savings, which begin on a sealed day")
    times = [minute_text(at, zone) for at in (fixed[0].from_unix_s, fixed[-1].until_unix_s)] if fixed else ["", ""]
    good = f"no row from {times[0]} until {times[1]} was changed since it was sealed"
    _conclude([*changes, *contradicted], open_points, good)


def _conclude(differences: list[str], open_points: list[str], good: str) -> None:
    for points in (differences, open_points):
        for point in points[:SHOWN]:
            typer.echo(f"- {point}")
        if len(points) > SHOWN:
            typer.echo(f"- and {len(points) - SHOWN:,} more")
    verdict = judge(differences, open_points)
    typer.echo(
        {
            Verdict.PROVEN: f"proven: {good}",
            Verdict.FALSE: f"FALSE: {counted(len(differences), 'difference')}",
            Verdict.NOT_PROVEN: f"NOT PROVEN: no difference, {counted(len(open_points), 'open point')}",
        }[verdict]
    )
    if verdict:
        raise typer.Exit(verdict)
