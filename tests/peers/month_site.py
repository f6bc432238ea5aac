"""A month of a site whose queue was put in order: the bundled accounting, with the starts that the engine gives it."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, MeterReading, Price, SavingRecord
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series, value_at
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import MachineSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.filters import between
from offpeak.sim_backend.traces.read import read_log

BERLIN = ZoneInfo("Europe/Berlin")
SAMPLE = Path(__file__).resolve().parents[2] / "sim_backend" / "sample"
MAY = (datetime(2023, 5, 1, tzinfo=BERLIN), datetime(2023, 6, 1, tzinfo=BERLIN))
J_PER_MWH = 3.6e9
DRAWS_W = (150.0, 150.0, 450.0, 450.0)

KWH = 3.6e6


@dataclass(frozen=True)
class MonthSite:
    """Its log as greedy ordered it, and its prices."""

    trace: Trace
    prices: Series


def month_site() -> MonthSite:
    """Return May 2023 of the bundled cluster, ordered by greedy from its first day to its last."""
    prices_file = SAMPLE / "sample_prices_eur_per_mwh.csv.gz"
    settings = Settings(prices=PriceSettings(file=prices_file), machine=MachineSettings(nodes=128))
    log = read_log(str(SAMPLE / "sample_sacct.txt.gz"), lenient=False, zone=BERLIN)
    assert log.unix_start_s is not None
    begin_s, until_s = (int(day.timestamp()) - log.unix_start_s for day in MAY)
    # Jobs that end within the month, so that both schedules have room to.
    cut = between(log, begin_s, until_s - 4 * 86_400)
    draw_w = np.array(DRAWS_W)[cut.jobs.job_id % len(DRAWS_W)]
    units = log.units_per_node or 1
    cut = replace(cut, jobs=replace(cut.jobs, node_power_w=draw_w / units))
    prepared = prepare(cut, settings, start=None, whole=log)
    (greedy,) = compare(prepared.case, (parse_policy("greedy", settings.scheduling),)).runs
    jobs = replace(prepared.case.jobs, logged_start_s=greedy.schedule.start_s)
    return MonthSite(replace(cut, jobs=jobs), read_series(prices_file, parse_layout("")))


def booked(site: MonthSite, file: Path) -> str:
    """Write the ledger of the month; returns its URL."""
    url = f"sqlite:///{file}"
    ledger = Ledger(LedgerSettings(url=url))
    ledger.write_jobs([_use(site, at) for at in range(len(site.trace.jobs))])
    first, last = (int(day.timestamp()) for day in MAY)
    ends = site.prices.start_s + site.prices.length_s
    within = (ends > first) & (site.prices.start_s < last + 40 * 86_400)
    rows = zip(
        site.prices.start_s[within].tolist(), ends[within].tolist(), site.prices.value[within].tolist(), strict=True
    )
    ledger.write_prices(
        [Price(float(start), float(end), price, "EUR", "published", 380.0) for start, end, price in rows]
    )
    _nodes_and_rests(ledger, first)
    assert ledger.close() == 0
    return url


def _nodes_and_rests(ledger: Ledger, first: int) -> None:
    """Write two days of two nodes' meters and of savings."""
    for hour in range(48):
        start = float(first + 3600 * hour)
        ledger.write_readings(
            [MeterReading("pdu1", "snmp", f"outlet {n}", start, start + 3600, 100.0 * n, node=f"n{n}") for n in (1, 2)]
        )
    for day in range(2):
        span = (float(first + 86_400 * day), float(first + 86_400 * (day + 1)))
        rested = SavingRecord(*span, "all nodes on", 9 * KWH, 0.9, 2 * KWH, 0.2, "EUR", "asleep for 8 h")
        moved = SavingRecord(*span, "the site's own order", 9 * KWH, 0.9, 9 * KWH, 0.7, "EUR", "20 replays")
        ledger.write_savings(
            [
                replace(rested, saved_carbon_g=7 * 380.0, measured_share=1.0),
                replace(moved, lever="order", low_cost=-0.1, high_cost=0.5, saved_carbon_g=90.0, measured_share=0.0),
            ]
        )


def _use(site: MonthSite, at: int) -> JobUse:
    jobs, trace = site.trace.jobs, site.trace
    start = float(jobs.logged_start_s[at] + (trace.unix_start_s or 0))
    end = start + float(jobs.runtime_s[at])
    energy_j = float(jobs.node_power_w[at] * jobs.size[at] * jobs.runtime_s[at])
    price = float(value_at(site.prices, np.array([int(start)]))[0])
    account = f"project{int(jobs.job_id[at]) % 3}"
    basis = ("measured", "measured 50%, the rest modelled: node class server", "modelled: all jobs")[at % 3]
    name = trace.names.job_text(int(jobs.job_id[at]))
    cost, grams = energy_j / J_PER_MWH * price, energy_j / 3.6e6 * 380.0
    return JobUse(name, start, end, "ann", account, "batch", "n[1-2]", energy_j, cost, "EUR", grams, basis)
