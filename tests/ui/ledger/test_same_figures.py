"""Every figure of energy and saving is the same wherever it is shown: ledger, jobs, report, bill, bundle, page, ..."""

import csv
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sqlalchemy import insert

from offpeak.ledger.database import open_ledger, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy, node_means, quarter_load, spans_energy
from offpeak.ledger.rows import JobCredit, JobUse, Price, SavingRecord
from offpeak.ledger.tables import quarters, series
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.prices.tariff import CHARGED, price_of_next_mwh
from offpeak.prices.tariff_file import read_source, site_tariff
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP, account_of
from offpeak.services.accounts.evidence import make_bundle
from offpeak.services.accounts.examination import examine_bundle
from offpeak.services.accounts.month_account import make_month_account
from offpeak.services.page import metrics
from offpeak.services.page.event_stream import savings_json
from offpeak.services.page.metrics import BookedCounters
from offpeak.settings.ledger import LedgerSettings

Offpeak = Callable[..., subprocess.CompletedProcess[str]]
Figures = dict[str, dict[str, float | str]]
"""By name of the figure, and in there by place."""
BERLIN = ZoneInfo("Europe/Berlin")
QUARTER_S = 900
USERS, ACCOUNTS = ("ann", "bob"), ("physics", "chemistry", "")
DARK = "kWh without CO2 shown"
ROUNDED = "all cost, position by position"
BEGIN_S, UNTIL_S = (int(datetime(2026, 10, day, tzinfo=BERLIN).timestamp()) for day in (2, 31))
END_S = UNTIL_S + DAY_S
"""30 days, of which one has 25 hours."""
MONTH = ("-S", "2026-10-01", "-E", "2026-11-01")
SERIES = (
    *(("pdu1", "snmp", "outlet 1", "n1"), ("bmc1", "dcmi", "total", "n1")),
    *(("pdu1", "snmp", "outlet 2", "n2"), ("pdu2", "snmp", "outlet 2", "n2"), ("bmc2", "redfish", "total", "n2")),
)
WATTS = (300.0, 280.0, 150.0, 160.0, 290.0)
GAP_S = BEGIN_S + 3 * DAY_S + 10 * HOUR_S
"""From here on the outlet of n1 is silent for three hours."""
DARK_S = BEGIN_S + 5 * DAY_S
TARIFF = """
currency = "EUR"
zone = "Europe/Berlin"
vat_percent = 19
[[energy]]
price = "spot"
factor = 1.08
[[levy]]
name = "levy"
price = "20.5EUR/MWh"
[[demand]]
price = "8EUR/kW"
per = "month"
"""


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"TZ": "Europe/Berlin"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A ledger of 30 days of quarter-hours and their prices: two meters a node, gaps in the outlets, once in all."""
    (tmp_path / "tariff.toml").write_text(TARIFF)
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    ledger, chance = Ledger(LedgerSettings(url=url)), np.random.default_rng(1)
    start_s = np.arange(BEGIN_S, END_S, QUARTER_S)
    charged = price_of_next_mwh(
        site_tariff(str(tmp_path / "tariff.toml")), start_s, chance.uniform(-20, 200, len(start_s))
    )
    prices = zip(start_s.tolist(), charged.tolist(), strict=True)
    # The carbon intensity of one day is not known.
    carbon = {at: None if DARK_S <= at < DARK_S + DAY_S else at % 7e2 for at in start_s.tolist()}
    ledger.write_prices([Price(at, at + 900, each, "EUR", f"published{CHARGED}", carbon[at]) for at, each in prices])
    write_jobs(ledger)
    assert ledger.close() == 0
    engine = writing_engine(url)
    with engine.begin() as connection:
        for number, names in enumerate(SERIES, 1):
            names_of = dict(zip(("meter", "way", "part", "node"), names, strict=True))
            connection.execute(insert(series).values(number=number, **names_of))
            covered_s = np.array([covered(number, at) for at in start_s.tolist()])
            energy_j = chance.uniform(0.8, 1.2, len(start_s)) * WATTS[number - 1] * covered_s
            rows = [
                {
                    "at_unix_s": at,
                    "series": number,
                    "covered_s": each_s,
                    "energy_j": each_j,
                    "without_value": int(each_s < 900),
                }
                for at, each_s, each_j in zip(start_s.tolist(), covered_s.tolist(), energy_j.tolist(), strict=True)
                if each_s or number == 4
            ]
            connection.execute(insert(quarters), rows)
    engine.dispose()
    return url


def write_jobs(ledger: Ledger) -> None:
    """Write a job a day, every other of which an owner let wait, and what sleep and order saved on each day."""
    uses, moved, saved = list[JobUse](), list[JobCredit](), list[SavingRecord]()
    for number, day_s in enumerate(day_edges(TimeRange(BEGIN_S, END_S), BERLIN)[:-1]):
        start_s, kwh, cost = day_s + 12.0 * HOUR_S, 0.5 + number / 7, 0.05 + number / 300
        run = (start_s, start_s + 1.5 * HOUR_S)
        of_job = (*run, USERS[number % 2], ACCOUNTS[number % 3], "batch", "n1", kwh * J_PER_KWH, cost, "EUR")
        uses.append(JobUse(str(number), *of_job, submitted_unix_s=day_s, basis="measured", carbon_g=300 * kwh))
        if number % 2:
            # What one of them saved is not known.
            tier_saved = None if number == 5 else cost / 3
            moved.append(JobCredit(str(number), *run, day_s, kwh * J_PER_KWH, "T1", tier_saved, "EUR", cost / 6))
        after_j, money = kwh * J_PER_KWH, (3 * cost, cost)
        for lever, saved_j, share in ((SLEEP, 2e7 / (number + 1), 1.0), (ORDER, 0.0, 0.0)):
            row = SavingRecord(
                day_s, day_s + DAY_S, lever, after_j + saved_j, money[0], after_j, money[1], "EUR", "", lever
            )
            bounds = {"low_cost": cost, "high_cost": 3 * cost, "saved_carbon_g": 7.0, "measured_share": share}
            saved.append(replace(row, **bounds))
    ledger.write_jobs(uses)
    ledger.write_credits(moved)
    ledger.write_savings(saved)


def covered(number: int, at_s: int) -> float:
    """Return the covered time of a series in a quarter-hour."""
    if BEGIN_S + 20 * DAY_S <= at_s < BEGIN_S + 20 * DAY_S + 2 * HOUR_S:
        return 0.0
    if number == 1:
        return 0.0 if GAP_S <= at_s < GAP_S + 3 * HOUR_S else 840.0 if at_s == BEGIN_S + 9 * HOUR_S else 900.0
    # One of two outlets is silent for four days, with rows that say so.
    return 0.0 if number == 4 and 8 * DAY_S <= at_s - BEGIN_S < 12 * DAY_S else 900.0


def ledger_figures(offpeak: Offpeak, url: str) -> Iterator[tuple[str, str, float | str]]:
    """Yield each figure of `offpeak ledger`, by each grouping, as its rows add up and as the table shows their sum."""
    for by in ("node", "day", "day,node"):
        args = ("ledger", "cost", "--by", by, *MONTH, "--ledger", url)
        rows = json.loads(offpeak(*args, "--json").stdout)
        for name in ("energy_j", "cost", "unpriced_j", "carbon_g", "without_carbon_j"):
            yield f"all {name}", by, sum(row[name] or 0.0 for row in rows)
            for key in by.split(","):
                sums = defaultdict[str, float](float)
                for row in rows:
                    sums[row[key]] += row[name] or 0.0
                yield from ((f"{of} {name}", by, each) for of, each in sums.items())
        hours = {"2026-10-25": 25} if "day" in by else {}
        length_h = {row.get("day"): hours.get(row.get("day"), 24 if "day" in by else 31 * 24 + 1) for row in rows}
        shares = [row["covered"] * length_h[row.get("day")] for row in rows]
        nodes = 1 if by == "day" else 2
        yield "all covered", by, round(sum(shares) / (31 * 24 + 1) / nodes, 9)
        (total,) = re.findall(r"^total +([\d.]+) +([\d.]+ EUR).* ([\d.]+)$", offpeak(*args).stdout, re.MULTILINE)
        yield from (("all kWh shown", by, total[0]), ("all EUR shown", by, total[1]), (DARK, by, total[2]))


def report_figures(offpeak: Offpeak, url: str, folder: Path) -> Iterator[tuple[str, str, float | str]]:
    """Yield the figures of the month, of the bill and of the sheet of the year."""
    more = ("--ledger", url, "--tariff", "tariff.toml", "--csv", "out.csv")
    text = offpeak("report", "--month", "2026-10", *more).stdout
    nodes, demand = (row for row in table(folder) if row["kind"] in ("nodes", "demand"))
    yield "all energy_j", "report", float(nodes["energy_kwh"]) * J_PER_KWH
    yield "all cost", "report", float(nodes["cost"])
    yield "all carbon_g", "report", float(nodes["co2_kg"]) * 1000
    (shown,) = re.findall(r"^nodes with meters +([\d.]+) .* ([\d.]+ EUR)", text, re.MULTILINE)
    yield from (("all kWh shown", "report", shown[0]), ("all EUR shown", "report", shown[1]))
    yield DARK, "report", re.findall(r"([\d.]+) kWh of nodes had no carbon intensity", text)[0]
    (covered,) = re.findall(r"which cover ([\d.]+ %) of the time of 2 nodes", text)
    yield "covered shown", "report", covered
    yield "covered shown", "report file", nodes["basis"].split(", ")[1].partition(" of ")[0]
    yield "demand with tax", "report", float(demand["cost"])
    assert offpeak("report", "--bill", "2026-10", *more).returncode == 0
    energy, levy, demand, _ = table(folder)
    yield from (
        ("all energy_j", f"bill, {each['name']}", float(each["quantity"]) * J_PER_KWH) for each in (energy, levy)
    )
    positions = 1.19 * (float(energy["cost"]) + float(levy["cost"]))
    yield from ((ROUNDED, "bill", positions), (ROUNDED, "report", float(nodes["cost"])))
    yield "peak kW", "bill", float(demand["quantity"])
    yield "demand with tax", "bill", float(demand["quantity"]) * 8 * 1.19
    assert offpeak("report", "--year", "2026", "--ledger", url, "--csv", "out.csv").returncode == 0
    for row in table(folder):
        if row["name"] == "metered energy" or (row["part"], row["of"], row["unit"]) == ("month", "2026-10", "kWh"):
            yield "all energy_j", f"year, {row['name']}", float(row["value"]) * J_PER_KWH


def account_figures(offpeak: Offpeak, url: str, folder: Path) -> Iterator[tuple[str, str, float | str]]:
    """Yield the figures of jobs, of what delays saved, and of the account of savings."""
    command = ("--ledger", url)
    bills = json.loads(offpeak("jobs", "--month", "2026-10", *command, "--json").stdout)
    assert len(bills) == 30
    by_account = json.loads(offpeak("ledger", "cost", "--by", "account", *MONTH, *command, "--json").stdout)
    text = offpeak("report", "--month", "2026-10", *command, "--csv", "out.csv").stdout
    (total,) = (row for row in table(folder) if row["kind"] == "jobs")
    for name, column, unit in (
        ("energy_j", "energy_kwh", J_PER_KWH),
        ("cost", "cost", 1),
        ("carbon_g", "co2_kg", 1000),
    ):
        yield f"jobs {name}", "jobs", sum(bill[name] for bill in bills)
        yield f"jobs {name}", "ledger", sum(row[name] for row in by_account)
        yield f"jobs {name}", "report", float(total[column]) * unit
    shown = offpeak("jobs", "--month", "2026-10", *command).stdout
    (used,) = re.findall(r"^30 jobs: ([\d.]+) kWh, ([\d.]+ EUR), ([\d.]+) kg CO2", shown, re.MULTILINE)
    (of_report,) = re.findall(r"^all accounts +30 +([\d.]+) .*% +([\d.]+ EUR) +([\d.]+)$", text, re.MULTILINE)
    yield from (("jobs shown", "jobs", " ".join(used)), ("jobs shown", "report", " ".join(of_report)))
    credits = json.loads(offpeak("ledger", "credits", *MONTH, *command, "--json").stdout)
    yield "delays cost", "jobs", sum(bill["tier_saved"] or 0.0 for bill in bills)
    yield "delays cost", "credits", sum(row["saved"] for row in credits)
    yield "credits", "jobs", sum(bill["credit"] or 0.0 for bill in bills)
    yield "credits", "ledger", sum(row["credit"] for row in credits)
    rows = json.loads(offpeak("ledger", "savings", *MONTH, *command, "--json").stdout)
    saved = [row for row in table(folder) if row["kind"] == "saved"]
    assert len(saved) == 2
    yield "saved cost", "ledger", sum(row["baseline_cost"] - row["cost"] for row in rows)
    yield "saved cost", "report", sum(float(row["cost"]) for row in saved)
    yield "saved energy_j", "ledger", sum(row["baseline_energy_j"] - row["energy_j"] for row in rows)
    yield "saved energy_j", "report", sum(float(row["energy_kwh"]) for row in saved) * J_PER_KWH
    (phrase,) = re.findall(r"^saved: (.+)$", offpeak("ledger", "savings", *MONTH, *command).stdout, re.MULTILINE)
    (of_month,) = re.findall(r"^Saved (.+)\.$", text, re.MULTILINE)
    yield from (("account shown", "ledger", phrase), ("account shown", "report", of_month))
    (of_tiers,) = re.findall(r"; the tiers of 15 jobs saved ([\d.]+ EUR)", shown)
    (not_added,) = re.findall(r"not included: ([\d.]+ EUR) that 15 delayed jobs saved", phrase)
    yield from (("delays shown", "jobs", of_tiers), ("delays shown", "account", not_added))
    with open_ledger(url) as connection:
        page = savings_json(account_of(connection, october()))
    yield from (("saved cost", "page", page["cost"]), ("saved energy_j", "page", page["energy_j"]))
    yield from (("delays cost", "page", page["delays"]["saved"]), ("account share", "page", page["share"]))
    yield "account share", "bill", page["cost"] / (page["cost"] + page["bill"])


def october() -> TimeRange:
    return TimeRange(*(datetime(2026, month, 1, tzinfo=BERLIN).timestamp() for month in (10, 11)))


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "out.csv").open() as file:
        return list(csv.DictReader(file))


def other_figures(url: str, tariff: Path) -> Iterator[tuple[str, str, float | str]]:
    """Yield the figures of bundles, of the days of the report's page, of the live page, of jobs and of metrics."""
    span = october()
    with open_ledger(url) as connection:
        bundle = tariff.with_name("bundle.zip")
        bundle.write_bytes(make_bundle(connection, span, BERLIN, tariff=read_source(str(tariff))))
        verified = examine_bundle(bundle)
        assert (verified.changes, verified.different) == ([], [])
        for place, figures in (("bundle", verified.printed), ("verify", verified.computed)):
            for node in ("n1", "n2"):
                yield f"{node} energy_j", place, (figures[f"node {node}"]["energy_kwh"] or 0.0) * J_PER_KWH
                yield f"{node} cost", place, figures[f"node {node}"]["cost"] or 0.0
            yield "saved cost", place, figures["saving in all"]["cost"] or 0.0
            yield "saved energy_j", place, (figures["saving in all"]["energy_kwh"] or 0.0) * J_PER_KWH
            yield "peak kW", place, figures["demand 2026-10"]["peak_kw"] or 0.0
            yield "demand with tax", place, figures["demand 2026-10"]["cost"] or 0.0
        for day in make_month_account(connection, span, BERLIN).days:
            yield f"{day.name} cost", "days of the report", day.cost
        load, sums = quarter_load(connection, span), defaultdict[int, float](float)
        for mean in node_means(connection, span):
            sums[mean.at_unix_s] += mean.power_w
        yield "peak kW", "page", max(sums.values()) / 1000
        for at_s in (BEGIN_S + 9 * HOUR_S, GAP_S, BEGIN_S + 9 * DAY_S):
            yield f"power at {at_s}", "page", sums[at_s]
            yield f"power at {at_s}", "load", float(load.power_w[load.start_s == at_s][0])
        # A job has the same meter in a minute of a quarter-hour as the node in all of it.
        edges_s = [BEGIN_S, BEGIN_S + 9 * HOUR_S + 400, GAP_S + 1000, BEGIN_S + 9 * DAY_S + 7, END_S]
        jobs = spans_energy(connection, [TimeRange(*each) for each in pairwise(edges_s)], [("n1", "n2")] * 4)
        for node in ("n1", "n2"):
            yield f"{node} energy_j", "jobs", sum(job[node].energy_j for job in jobs)
            yield f"{node} cost", "jobs", sum(job[node].cost or 0.0 for job in jobs)
        counters, after_s = BookedCounters(), GAP_S + 2 * HOUR_S
        for now_s in (GAP_S, after_s):
            counters.read(url, now_s)
        ((_, energy_j),) = [each for each in counters.counted.items() if each[0][0] == "offpeak_energy_joules"]
        yield "recent energy_j", "metrics", energy_j[0]
        (recent,) = node_energy(connection, TimeRange(GAP_S + QUARTER_S, after_s + QUARTER_S), (), BERLIN)
        yield "recent energy_j", "ledger", recent.energy_j


def test_every_figure_is_the_same_everywhere(
    url: str, offpeak: Offpeak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "COUNTER_PAUSES", 0)
    found: Figures = defaultdict(dict)
    tariff = tmp_path / "tariff.toml"
    of_ledger, of_report = ledger_figures(offpeak, url), report_figures(offpeak, url, tmp_path)
    for places in (of_ledger, of_report, account_figures(offpeak, url, tmp_path), other_figures(url, tariff)):
        for name, place, value in places:
            found[name][place] = value
    assert len(found) > 100
    for name, figures in found.items():
        first = next(iter(figures.values()))
        same = (
            first if isinstance(first, str) else pytest.approx(first, rel=1e-9, abs=0.02 if name == ROUNDED else 1e-9)
        )
        assert (name, len(figures) > 1, figures) == (name, True, dict.fromkeys(figures, same))
