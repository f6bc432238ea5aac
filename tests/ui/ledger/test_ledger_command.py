"""`offpeak ledger` as an operator runs it."""

import csv
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobUse, MeterReading, NodeStateRecord, Price, SavingRecord
from offpeak.model.orders import NodeOrder
from offpeak.settings.ledger import LedgerSettings
from offpeak.ui.ledger.text import assumed_prices

Offpeak = Callable[..., subprocess.CompletedProcess[str]]
DAY = ("-S", "2026-11-01", "-E", "2026-11-02")
START_S = 1_793_487_600
"""2026-11-01 00:00 in Berlin."""
HOUR_S = 3600
KWH = 3.6e6


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"TZ": "Europe/Berlin"}


@pytest.fixture
def site(tmp_path: Path) -> str:
    """A ledger of one day of two nodes, and a little of the day before; gives its URL."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    sleep = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle", (("idle_s", 1200.0),))
    number = ledger.write_intent(sleep, START_S + 100.0)
    ledger.write_outcome(number, Outcome("done", "accepted"), START_S + 101.0)
    ledger.write_refusal(sleep, Refusal("held", "ann holds it"), START_S + 200.0)
    ledger.write_decisions([DecisionRecord(START_S + 99.0, "n1", "sleep", "idle for 20 min", (("idle_s", 1200.0),))])
    ledger.write_states([NodeStateRecord("n1", START_S - 50.0, "on", "on", "scheduler")])
    ledger.write_states([NodeStateRecord("n2", START_S + 101.0, "off", "off", "offpeak", "asleep")])
    for number in range(-1, 24):
        hour = START_S + number * HOUR_S
        ledger.write_readings(
            [
                MeterReading("pdu1", "snmp", f"outlet {node}", hour, hour + HOUR_S, 100.0 * node, node=f"n{node}")
                for node in (1, 2)
            ]
        )
        ledger.write_prices([Price(hour, hour + HOUR_S, 80.0, "EUR", "tariff", 400.0)])
    ledger.write_jobs([job("7", "ann", "physics", 2 * KWH, 0.5), job("8", "bob", "physics", KWH, 0.25)])
    ledger.write_savings(
        [SavingRecord(START_S, START_S + 86_400, "always on", 9 * KWH, 2.0, 7.2 * KWH, 1.5, "EUR", "metered")]
    )
    assert ledger.close() == 0
    return url


def job(name: str, user: str, account: str, energy_j: float, cost: float) -> JobUse:
    return JobUse(name, START_S, START_S + 600.0, user, account, "batch", "n1", energy_j, cost, "EUR", 9.0, "metered")


def test_days_are_those_of_the_market_also_when_its_clock_changes(
    tmp_path: Path, environment: dict[str, str], offpeak: Offpeak
) -> None:
    environment["TZ"] = "America/Los_Angeles"
    config, ledger = tmp_path / "offpeak.toml", Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    config.write_text(f'[feeds]\nzone = "DE-LU"\n[ledger]\nurl = "{ledger.settings.url}"\n')
    before_s, long_s, after_s = (
        START_S - 8 * 24 * HOUR_S - HOUR_S,
        START_S - 7 * 24 * HOUR_S - HOUR_S,
        START_S - 6 * 24 * HOUR_S,
    )
    hours = range(before_s, after_s + 24 * HOUR_S, HOUR_S)
    ledger.write_readings([MeterReading("pdu1", "snmp", "1", at, at + HOUR_S, 100.0, node="n1") for at in hours])
    ledger.write_savings([SavingRecord(long_s, after_s, "always on", 9 * KWH, 2.0, 7.2 * KWH, 1.5, "EUR", "metered")])
    ledger.write_jobs([replace(job("7", "ann", "physics", 2 * KWH, 0.5), ended_unix_s=after_s - 60.0)])
    assert ledger.close() == 0
    times = ("--config", str(config), "-S", "2026-10-24", "-E", "2026-10-27")
    assert table_rows(offpeak("ledger", "energy", *times))[1:4] == [
        ["2026-10-24", "2.40", "100.0", "%"],
        ["2026-10-25", "2.50", "100.0", "%"],
        ["2026-10-26", "2.40", "100.0", "%"],
    ]
    assert table_rows(offpeak("ledger", "cost", "--by", "day,user", *times))[1][:2] == ["2026-10-25", "ann"]
    assert table_rows(offpeak("ledger", "savings", *times))[1][:4] == [
        "2026-10-25",
        "00:00:00",
        "2026-10-26",
        "00:00:00",
    ]
    day = ("--config", str(config), "-S", "2026-10-25", "-E", "2026-10-26", "--json")
    (bill,) = json.loads(offpeak("jobs", *day).stdout)
    assert (bill["job"], bill["ended"]) == ("7", "2026-10-25T23:59:00+01:00")


def table_rows(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


def test_money_at_an_assumed_tariff_is_named_as_such(site: str, offpeak: Offpeak) -> None:
    ledger = Ledger(LedgerSettings(url=site))
    hours = [START_S + number * HOUR_S for number in range(12)]
    ledger.write_prices([Price(hour, hour + HOUR_S, 30.0, "EUR", "assumed tariff") for hour in hours])
    assert ledger.close() == 0
    note = (
        "- Prices: for 50 % of the priced time none were set, and a tariff is assumed: 90 EUR/MWh from 09:00 to 23:00"
        " every day, clock of Europe/Berlin, else 30 EUR/MWh. The cost is based on that assumption;"
    )
    for arguments in (("cost",), ("savings",)):
        done = offpeak("ledger", *arguments, "--ledger", site, *DAY)
        assert note in done.stdout
        assert "assumed" not in offpeak("ledger", *arguments, "--ledger", site, "-S", "2026-11-01T12:00").stdout
        assert len(json.loads(offpeak("ledger", *arguments, "--ledger", site, *DAY, "--json").stdout)) == 1
    assert "assumed" not in offpeak("ledger", "energy", "--ledger", site, *DAY).stdout


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.002, "less than 1 %"), (0.5, "50 %"), (0.99, "99 %"), (0.998, "more than 99 %"), (1.0, "100 %")],
)
def test_a_small_share_of_assumed_prices_is_not_none_and_a_large_one_not_all(share: float, text: str) -> None:
    (line,) = assumed_prices(share, UTC)
    assert line.startswith(f"Prices: for {text} of the priced time")


def test_energy_and_cost_by_day_and_node(site: str, offpeak: Offpeak) -> None:
    assert table_rows(offpeak("ledger", "energy", "--ledger", site, *DAY, "--by", "node")) == [
        ["node", "energy", "kWh", "covered"],
        ["n1", "2.40", "100.0", "%"],
        ["n2", "4.80", "100.0", "%"],
        ["total", "7.20"],
    ]
    assert table_rows(offpeak("ledger", "cost", "--ledger", site, "-S", "2026-10-31", "-E", "2026-11-02"))[1:] == [
        ["2026-10-31", "0.30", "0.02", "EUR", "0.00", "0.12", "4.2", "%"],
        ["2026-11-01", "7.20", "0.58", "EUR", "0.00", "2.88", "100.0", "%"],
        ["total", "7.50", "0.60", "EUR", "0.00", "3.00"],
    ]


def test_cost_by_account_and_user(site: str, offpeak: Offpeak) -> None:
    assert table_rows(offpeak("ledger", "cost", "--ledger", site, *DAY, "--by", "account,user")) == [
        ["account", "user", "energy", "kWh", "cost", "unpriced", "kWh", "CO2", "kg", "jobs"],
        ["physics", "ann", "2.00", "0.50", "EUR", "0.00", "0.01", "1"],
        ["physics", "bob", "1.00", "0.25", "EUR", "0.00", "0.01", "1"],
        ["total", "3.00", "0.75", "EUR", "0.00", "0.02", "2"],
    ]


def test_records_on_a_terminal(site: str, offpeak: Offpeak) -> None:
    assert table_rows(offpeak("ledger", "actions", "--ledger", site, *DAY))[1:] == [
        ["2026-11-01", "00:01:40", "n1", "soft_off", "offpeak", "done", "accepted", "idle"],
        ["2026-11-01", "00:03:20", "n1", "soft_off", "offpeak", "refused", "held", "ann", "holds", "it", "idle"],
    ]
    (decision,) = table_rows(offpeak("ledger", "decisions", "n[1-2]", "--ledger", site, *DAY))[1:]
    assert decision == ["2026-11-01", "00:01:39", "n1", "sleep", "idle", "for", "20", "min", "idle_s", "1200"]
    states = table_rows(offpeak("ledger", "states", "--ledger", site, *DAY))
    assert [line[2:5] for line in states[1:]] == [["n1", "on", "on"], ["n2", "off", "off"]]
    saving, _, total = table_rows(offpeak("ledger", "savings", "--ledger", site, *DAY))[1:]
    assert saving[4:] == ["sleep", "always", "on", "7.20", "1.80", "0.50", "EUR", "metered"]
    assert " ".join(total) == "saved: 0.50 EUR, 46.5 % of the bill; 1.80 kWh"
    assert table_rows(offpeak("ledger", "decisions", "n2", "--ledger", site, *DAY)) == [
        ["nothing", "from", "2026-11-01", "00:00:00", "to", "2026-11-02", "00:00:00"]
    ]


def test_json_and_csv(site: str, offpeak: Offpeak) -> None:
    (n1, n2) = json.loads(offpeak("ledger", "energy", "--ledger", site, *DAY, "--by", "day,node", "--json").stdout)
    assert (n1["day"], n1["node"], n2["node"]) == ("2026-11-01", "n1", "n2")
    assert n2["energy_j"] == pytest.approx(4.8 * KWH)
    lines = offpeak("ledger", "actions", "--ledger", site, *DAY, "--csv").stdout.splitlines()
    done, refused = csv.DictReader(lines)
    assert (done["at"], done["result"]) == ("2026-11-01T00:01:40+01:00", "done")
    assert (done["inputs"], refused["rule"], refused["intent"]) == ('[["idle_s", 1200.0]]', "held", "")
    assert offpeak("ledger", "actions", "n9", "--ledger", site, *DAY, "--json").stdout == "[]\n"
    assert offpeak("ledger", "actions", "n9", "--ledger", site, *DAY, "--csv").stdout == ""


def test_prune_and_backup(site: str, offpeak: Offpeak, tmp_path: Path) -> None:
    before = offpeak("ledger", "energy", "--ledger", site, *DAY, "--by", "node").stdout
    done = offpeak("ledger", "backup", "copy.sqlite", "--ledger", site)
    assert done.stdout.startswith(f"copy.sqlite: a copy of {tmp_path / 'ledger.sqlite'}, ")
    days_on = round((time.time() - START_S) / 86_400) - 2
    done = offpeak(
        "ledger", "prune", "--ledger", site, "--keep-readings", f"{max(days_on, 0)}d", "--keep-minutes", "0s"
    )
    assert done.returncode == 0
    assert re.search(r"\d rows? deleted$", done.stdout.strip())
    assert offpeak("ledger", "energy", "--ledger", site, *DAY, "--by", "node").stdout == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("energy", "--by", "user,node"), "--by user,node: a node's energy is not known by user"),
        (("cost", "--by", "usr"), "--by usr: is not a group"),
        (("actions", "-S", "soon"), "'soon' is not a time"),
        (("actions", "-S", "today", "-E", "yesterday"), "the end (yesterday) is not after the start (today)"),
        (("states", "--json", "--csv"), "--json and --csv cannot be combined"),
        (("decisions", "n[1-"), "'n[1-' is not a node set"),
        (("energy", "--ledger", "sqlite:////none/ledger.sqlite"), "/none/ledger.sqlite: there is no ledger"),
        (("prune", "--ledger", "sqlite:////none/ledger.sqlite"), "/none/ledger.sqlite: there is no ledger"),
        (("energy", "--ledger", "mysql://db/x"), "ledger.url: is not an address of a SQLite file"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(site: str, offpeak: Offpeak, arguments: tuple[str, ...], error: str) -> None:
    done = offpeak("ledger", *arguments, *([] if "--ledger" in arguments else ["--ledger", site]))
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_ledger_that_others_may_not_read_says_so(site: str, tmp_path: Path, offpeak: Offpeak) -> None:
    if os.geteuid() != 0:
        (tmp_path / "ledger.sqlite").chmod(0)
    else:
        (tmp_path / "ledger.sqlite").write_text("no database")
    done = offpeak("ledger", "energy", "--ledger", site)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 2
    assert f"{tmp_path / 'ledger.sqlite'}: " in done.stderr
