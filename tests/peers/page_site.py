"""A site to look at: an agent that answers with a day of nodes, jobs and prices, its ledger, and the page of both."""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_socket import AgentSocket, agent_socket
from sqlalchemy import insert
from zygote import Forked, Zygote

from benchmarks.local_slurm.processes import listens, reserved_ports, wait_until
from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.ledger.database import add_partitions, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobUse, NodeStateRecord, SavingRecord
from offpeak.ledger.tables import jobs, quarters, series
from offpeak.model.orders import NodeOrder
from offpeak.services.accounts.account_of_savings import DemandSaving, LeverSaving, SavingsAccount
from offpeak.services.agent.status import (
    ForecastStatus,
    JobStatus,
    NodeCounts,
    NodeStatus,
    PriceSlot,
    PriceStatus,
    StatusReply,
    StatusSnapshot,
)
from offpeak.settings.ledger import LedgerSettings

AT_S = 1_794_490_200
"""2026-11-12 14:30 in Berlin."""
DAY_S, HOUR_S, QUARTER_S = 86_400, 3600, 900
DAY_BEGAN_S, MONTH_BEGAN_S = AT_S - 14.5 * HOUR_S, AT_S - (11 * 24 + 14.5) * HOUR_S
DRAWS = {"on": 145.0, "busy": 312.0, "off": 6.0, "booting": 160.0, "going down": 140.0, "standby": 14.0}
SHAPE = (52, 48, 45, 44, 47, 58, 79, 98, 104, 92, 74, 60, 51, 46, 52, 71, 96, 121, 138, 127, 104, 86, 71, 60)
"""What a megawatt-hour costs hour by hour."""
RACK = 32
"""The number of nodes of a rack."""
REPOSITORY = Path(__file__).resolve().parents[2]
OFFPEAK = (sys.executable, "-c", "from offpeak.ui.command import main; main()")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def make_snapshot(nodes: int = 64, jobs: int = 40, *, seed: int = 1) -> StatusSnapshot:
    """Return a working afternoon of a site of so many nodes."""
    chance = random.Random(seed)
    each = tuple(_node(at, chance) for at in range(nodes))
    states = sorted({node.state for node in each})
    counts = tuple((state, sum(node.state == state for node in each)) for state in states)
    watts = sum(node.watts or 0.0 for node in each)
    published = StatusReply(
        at_unix_s=AT_S,
        mode="active",
        cluster="elbe",
        scheduler="slurm 22.05.8",
        cycle_s=30,
        price=PriceStatus(52.0, "EUR/MWh", "published", on_peak=False, until_unix_s=AT_S + 90 * 60),
        nodes=NodeCounts(counts, watts),
        saved_today=SavingsAccount(
            (LeverSaving("sleep", 1, 30.4 * 3.6e6, 2.71, 2.65, 2.77, measured_share=1.0),),
            *(30.4 * 3.6e6, 2.71, 2.65, 2.77, "EUR"),
            days=1,
        ),
        demand=(
            DemandSaving("demand 2026-11", AT_S - 3 * 86_400, 127.34, 1018.72, "EUR", 1.0, False, 139.6, 98.08),
            DemandSaving(
                "on-peak 2026-11", AT_S - 2 * 86_400, 98.2, 491.0, "EUR", 1.0, False, why="readings are missing"
            ),
        ),
        jobs=tuple(_job(at, jobs, chance) for at in range(jobs)),
        forecasts=(
            ForecastStatus("price", "EUR/MWh", "forecast", 11.3, "week before", 18.2, 336),
            ForecastStatus("run time", "s", "similar jobs", 1860.0, "time limit", 26_400.0, 500),
            ForecastStatus("job power", "W/node", "node class", 14.2, "node class", 14.2, 42),
        ),
    )
    return StatusSnapshot(
        published,
        "Europe/Berlin",
        DAY_BEGAN_S,
        MONTH_BEGAN_S,
        job_counts=(("pending", sum(job.place is not None for job in published.jobs)), ("running", 31)),
        slots=tuple(_slot(hour) for hour in range(-15, 57)),
        prices_until_unix_s=_slot(57).from_unix_s,
        nodes=each,
        planned_w=tuple(_planned(AT_S + at * QUARTER_S, published.jobs) for at in range(-1, 100)),
    )


def _node(at: int, chance: random.Random) -> NodeStatus:
    kinds = ("busy",) * 30 + ("on",) * 6 + ("off",) * 20 + ("booting", "going down", "standby", "unknown")
    kind = chance.choice(kinds)
    state, term = ("on", "busy") if kind == "busy" else (kind, "up" if kind == "on" else "down")
    asleep = kind in ("off", "going down")
    why = {
        "off": "offpeak: idle for 22 min, and no job of the next 6 h needs it",
        "going down": "offpeak: idle for 22 min, and no job of the next 6 h needs it",
        "booting": "scheduler: job 18412 needs it",
        "unknown": "no answer in 5 s",
    }.get(kind, "")
    watts = DRAWS.get(kind)
    return NodeStatus(
        f"n{at + 1:03}",
        state,
        term,
        "soft_off" if asleep else "on" if kind == "booting" else "",
        None if watts is None else round(watts + chance.gauss(0, watts / 20), 1),
        kind != "standby",
        145.0,
        AT_S - chance.randint(60, 6 * HOUR_S),
        "offpeak" if kind in ("off", "booting", "going down") else "unknown",
        why,
        at == 5,
        rack=f"r{at // RACK + 1:02}",
    )


def _job(at: int, of: int, chance: random.Random) -> JobStatus:
    watts = float(chance.choice((180, 240, 305, 412)))
    runs = at >= of * 3 // 4
    why = "runs" if runs else f"{watts:.0f} W a node; on-peak from 16:00: cooler jobs go first until 21:00"
    return JobStatus(
        str(18_400 + at),
        chance.choice(("ann", "bob", "chidi", "dora")),
        chance.choice(("batch", "long")),
        "RUNNING" if runs else "PENDING",
        chance.choice((1, 1, 2, 4, 8)),
        None if runs else at + 1,
        0 if runs else of * 3 // 4,
        watts,
        "" if runs else why,
        None if runs else AT_S + 600 * (at + 1),
        None if runs else AT_S + DAY_S,
        None,
        "EUR",
        "" if runs or at % 3 else chance.choice(("up 2", "down 1", "up 4")),
        ends_unix_s=AT_S + HOUR_S * (1 + at % 9) + (0 if runs else 600 * (at + 1)),
    )


def _planned(at_s: int, jobs: tuple[JobStatus, ...]) -> tuple[int, float]:
    runs = (job for job in jobs if (job.would_start_unix_s or 0) <= at_s < (job.ends_unix_s or 0))
    return at_s, 1450.0 + sum(job.nodes * (job.watts_per_node or 0.0) for job in runs)


def _slot(hour: int) -> PriceSlot:
    at_s = int(DAY_BEGAN_S) + 15 * HOUR_S + hour * HOUR_S
    price = float(SHAPE[(hour + 15) % 24])
    forecast = hour >= 33
    spread = 0.08 * price + 0.6 * (hour - 32) if forecast else 0.0
    return PriceSlot(
        at_s,
        price,
        price - spread,
        price + spread,
        price > 75,
        "forecast: arbiter" if forecast else "published",
        180.0 + 2.5 * SHAPE[(hour + 18) % 24],
    )


def write_ledger(url: str, shown: StatusSnapshot, *, hours: float = 24) -> None:
    """Write a day of states and readings, and what was decided and done of late."""
    ledger, chance = Ledger(LedgerSettings(url=url)), random.Random(2)
    ledger.ready()
    ledger.write_states([_was(node, AT_S - DAY_S - HOUR_S, "on") for node in shown.nodes])
    ledger.write_states([_was(node, node.since_unix_s, node.state) for node in shown.nodes])
    for at, node in enumerate(shown.nodes[:24]):
        what = "sleep: soft_off" if node.desired == "soft_off" else "keep on"
        ledger.write_decisions(
            [DecisionRecord(AT_S - 97 * at, node.node, what, node.why or "a job may start within 20 min")]
        )
        if node.desired == "soft_off":
            effect = Effect(node.node, NodeOrder.SOFT_OFF, "offpeak", node.why)
            ledger.write_outcome(
                ledger.write_intent(effect, AT_S - 97 * at + 1), Outcome("done", "accepted", ""), AT_S - 97 * at + 2
            )
    refused = Effect("n006", NodeOrder.SOFT_OFF, "offpeak", "idle for 31 min")
    ledger.write_refusal(refused, Refusal("held", "held by ann: new fan", "offpeak nodes n006 release"), AT_S - 40)
    days = (DAY_BEGAN_S - DAY_S * day for day in range(1, 4))
    ledger.write_savings(
        [
            SavingRecord(
                *(day, day + DAY_S, "all nodes on", 9e8, 22.0, 8e8, 19.5, "EUR", "20 nodes asleep for 96.0 h"),
                low_cost=2.4,
                high_cost=2.6,
                measured_share=1.0,
                saved_carbon_g=9400.0,
            )
            for day in days
        ]
        + [
            SavingRecord(
                *(DAY_BEGAN_S, DAY_BEGAN_S + DAY_S, "all nodes on", 9e8, 22.0, 8e8, 19.29, "EUR", ""),
                measured_share=1.0,
                saved_carbon_g=10_100.0,
                as_of_unix_s=AT_S,
            )
        ]
    )
    ledger.close()
    _write_means(url, shown, hours, chance)


def _was(node: NodeStatus, at_s: float, state: str) -> NodeStateRecord:
    return NodeStateRecord(node.node, at_s, state, node.desired, node.by, node.why)


def _write_means(url: str, shown: StatusSnapshot, hours: float, chance: random.Random) -> None:
    engine = writing_engine(url)
    numbers = {node.node: at for at, node in enumerate(shown.nodes, 1)}
    first = int(AT_S - hours * HOUR_S) // QUARTER_S * QUARTER_S
    rows: list[dict[str, Any]] = []
    runs: list[JobUse] = []
    for at_s in range(first, AT_S, QUARTER_S):
        for node in shown.nodes:
            kind = node.state if at_s >= node.since_unix_s else chance.choice(("busy", "busy", "on"))
            kind = "busy" if node.word == "busy" else kind
            watts = DRAWS.get(kind, DRAWS["on"]) * chance.uniform(0.93, 1.07)
            mean = {"covered_s": 900.0, "energy_j": 900 * watts, "min_w": watts, "max_w": watts, "without_value": 0}
            rows.append({"at_unix_s": at_s, "series": numbers[node.node], **mean})
            if kind == "busy":
                runs.append(_ran(len(runs), node.node, at_s))
    with engine.begin() as connection:
        of = [{"number": at, "meter": "rack1", "way": "snmp", "part": str(at), "node": n} for n, at in numbers.items()]
        connection.execute(insert(series), of)
        add_partitions(connection, quarters.name, (row["at_unix_s"] for row in rows))
        connection.execute(insert(quarters), rows)
        connection.execute(insert(jobs), [vars(run) for run in runs])
    engine.dispose()


def _ran(number: int, node: str, at_s: int) -> JobUse:
    return JobUse(str(number), at_s, at_s + QUARTER_S, "ann", "physics", "batch", node, None, None, "EUR")


@dataclass
class PageSite:
    """The running page at `url`, and the agent that it asks."""

    url: str
    agent: AgentSocket
    process: Forked
    log: Path

    def change(self, *, seconds: int = 30) -> None:
        """Let a cycle pass: some nodes and jobs change."""
        shown = self.agent.snapshot
        assert shown is not None
        at_s = shown.published.at_unix_s + seconds
        again = make_snapshot(len(shown.nodes), len(shown.published.jobs), seed=int(at_s))
        self.agent.snapshot = replace(again, published=replace(again.published, at_unix_s=at_s))


@contextmanager
def page_site(
    zygote: Zygote, folder: Path, shown: StatusSnapshot, *arguments: str, hours: float = 24, is_new: bool = False
) -> Iterator[PageSite]:
    """Run all of it until the block ends; `arguments` are further options of `offpeak page`, a new ledger is empty."""
    url = f"sqlite:///{folder}/ledger.sqlite"
    if is_new:
        ledger = Ledger(LedgerSettings(url=url))
        ledger.ready()
        ledger.close()
    else:
        write_ledger(url, shown, hours=hours)
    with agent_socket(folder / "run" / "agent.sock") as agent, reserved_ports(1) as (port,):
        agent.snapshot = shown
        place = f"127.0.0.1:{port}"
        options = ("--listen", place, "--socket", str(agent.path), "--ledger", url, *arguments)
        log = folder / "page.log"
        page = zygote.start(("page", *options), log, ENVIRONMENT)
        try:
            wait_until(lambda: listens(port), what="the page", log=log)
            yield PageSite(f"http://{place}/", agent, page, log)
        finally:
            page.terminate()
            page.wait(300)
