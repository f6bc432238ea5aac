"""A month of a site whose queue was put in order: the bundled accounting, with the starts that the engine gives it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from offpeak.door.effect import Effect, Outcome
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, MeterReading, Price, SavingRecord
from offpeak.model.jobs import Trace
from offpeak.model.orders import QueueChange
from offpeak.model.step_series import Series, value_at
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import MachineSettings, PriceSettings
from offpeak.settings.table import Settings
from plugin.slurm.accounting import SACCT_COLUMNS
from sim_backend.case.replay_case import ReplayCase, prepare
from sim_backend.comparison.compare import compare
from sim_backend.replay.policy import parse_policy
from sim_backend.traces.filters import between
from sim_backend.traces.read import read_log

BERLIN = ZoneInfo("Europe/Berlin")
SAMPLE = Path(__file__).resolve().parents[2] / "sim_backend" / "sample"
MAY = (datetime(2023, 5, 1, tzinfo=BERLIN), datetime(2023, 6, 1, tzinfo=BERLIN))
J_PER_MWH = 3.6e9
DRAWS_W = (150.0, 150.0, 450.0, 450.0)

KWH = 3.6e6


@dataclass(frozen=True)
class MonthSite:
    """Its log as greedy ordered it, its prices and settings, and the case of greedy against easy that it comes from.

    `true_saving` is what greedy saved.
    """

    trace: Trace
    prices: Series
    settings: Settings
    case: ReplayCase
    true_saving: float


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
    policies = tuple(parse_policy(name, settings.scheduling) for name in ("greedy", "easy"))
    greedy, easy = compare(prepared.case, policies).runs
    jobs = replace(prepared.case.jobs, logged_start_s=greedy.schedule.start_s)
    saving = (easy.charges.cost.total - greedy.charges.cost.total) / J_PER_MWH
    return MonthSite(
        replace(cut, jobs=jobs), read_series(prices_file, parse_layout("")), settings, prepared.case, saving
    )


def booked(site: MonthSite, file: Path, *, ordered_days: int = 31) -> str:
    """Write the ledger of the month, whose queue was put in order on so many of its days; returns its URL."""
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
    for day in range(ordered_days):
        noon = (MAY[0] + timedelta(days=day, hours=12)).timestamp()
        number = ledger.write_intent(Effect("queue of batch", QueueChange.RANK, "offpeak", "on-peak"), noon)
        ledger.write_outcome(number, Outcome("done", "accepted"), noon + 1)
    _nodes_and_rests(ledger, first)
    assert ledger.close() == 0
    return url


def _nodes_and_rests(ledger: Ledger, first: int) -> None:
    """Write a day of two nodes' meters, and two days of rests."""
    for hour in range(24):
        start = float(first + 3600 * hour)
        ledger.write_readings(
            [MeterReading("pdu1", "snmp", f"outlet {n}", start, start + 3600, 100.0 * n, node=f"n{n}") for n in (1, 2)]
        )
    for day in range(2):
        span = (float(first + 86_400 * day), float(first + 86_400 * (day + 1)))
        ledger.write_savings(
            [
                SavingRecord(
                    *span,
                    "all nodes on",
                    9 * 3.6e6,
                    0.9,
                    2 * 3.6e6,
                    0.2,
                    "EUR",
                    "8 h of rest",
                    saved_carbon_g=7 * 380.0,
                )
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


def sacct_text(site: MonthSite) -> str:
    """Return the month's accounting as `sacct -P` prints it, on the clock of Berlin."""
    jobs, units = site.trace.jobs, site.trace.units_per_node or 1
    lines = ["|".join(SACCT_COLUMNS)]
    for at in range(len(jobs)):
        submit, start = (
            int(column[at]) + (site.trace.unix_start_s or 0) for column in (jobs.submit_s, jobs.logged_start_s)
        )
        times = "|".join(
            f"{datetime.fromtimestamp(second, BERLIN):%Y-%m-%dT%H:%M:%S}"
            for second in (submit, submit, start, start + int(jobs.runtime_s[at]))
        )
        number, size, run_s = int(jobs.job_id[at]), int(jobs.size[at]), int(jobs.runtime_s[at])
        limit = -(-int(jobs.estimate_s[at]) // 60)
        used = f"{run_s}|{limit}|{-(-size // units)}|{size}"
        lines.append(f"{number}|{number}|ann|p||COMPLETED|{times}|{used}|||||||||app")
    return "\n".join(lines) + "\n"
