"""Each row of a table of policies owns its basis: rows beside it, and their order, do not change it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

import offpeak
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.comparison.breakdown import breakdown
from offpeak.sim_backend.estimate import estimate_savings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak.ui.replay.comparison import comparison_json

Rows = dict[str, str]
JOB = "{job} {submit} -1 {run} {size} -1 -1 {size} {limit} -1 1 {user} -1 -1 -1 -1 -1 -1"
POLICIES = ("easy", "fcfs", "greedy", "first-fit")
CAPACITIES = ("always-on", "timeout:10min", "two-level:50%")
CASES = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log on 16 nodes, and four weeks of prices from the day before it on."""
    rng, folder = np.random.default_rng(4), tmp_path_factory.mktemp("rows")
    submit, run = np.cumsum(rng.integers(0, 1800, 60)), rng.integers(300, 20_000, 60)
    jobs = [
        JOB.format(job=1 + n, submit=submit[n], run=run[n], size=rng.integers(1, 13), limit=2 * run[n], user=n % 5)
        for n in range(60)
    ]
    (folder / "log.swf").write_text("\n".join(["; MaxProcs: 16", "; UnixStartTime: 1672614000", *jobs, ""]))
    prices = [f"2023-01-{1 + hour // 24:02}T{hour % 24:02}:00Z,{rng.normal(60, 40):.2f}" for hour in range(24 * 28)]
    (folder / "prices_eur_per_mwh.csv").write_text("\n".join(["time,price", *prices, ""]))
    return folder / "log.swf", folder / "prices_eur_per_mwh.csv"


def simulated(site: tuple[Path, Path], policies: list[str], capacities: list[str]) -> Rows:
    """Return the rows of `offpeak simulate --json`, which are those of Python, by policy: with replays, and by day."""
    log = offpeak.price(offpeak.load(site[0]), prices=site[1], carbon="400g/kWh", node_class="server")
    made = offpeak.replay(log, policy=policies, capacity=capacities, replays=2)
    days = tuple(breakdown(made.comparison, run, "day") for run in made.comparison.runs)
    text = comparison_json(made.trace, made.prepared, made.comparison, made.spreads, {"day": days})
    document = json.loads(text)
    rows = zip(document["policies"], document["replays"], offpeak.compare(made), strict=True)
    return {
        row["policy"]: repr([{**row, "simulate_s": 0}, again, {**python, "simulate_s": 0}])
        for row, again, python in rows
    }


def estimated(site: tuple[Path, Path], policies: list[str]) -> Rows:
    """Return the rows of `offpeak estimate` by policy."""
    chosen = tuple(parse_policy(name, SchedulingSettings()) for name in policies)
    settings = Settings(prices=PriceSettings(file=site[1]))
    made = estimate_savings(read_swf(site[0]), settings, chosen, days=None, replays=2)
    return {
        spread.policy: repr((spread, *(each for each in made.savings if each.policy == spread.policy)))
        for spread in made.spreads
    }


def test_a_row_does_not_depend_on_the_others(site: tuple[Path, Path]) -> None:
    rng = random.Random(1)

    def some(names: tuple[str, ...]) -> list[str]:
        """Return the baseline, and any of the others in any order."""
        return [names[0], *rng.sample(names[1:], rng.randint(0, len(names) - 1))]

    whole, orders = simulated(site, [*POLICIES], [*CAPACITIES]), estimated(site, [*POLICIES])
    assert len({json.dumps(row) for row in whole.values()}) == len(POLICIES) * len(CAPACITIES)
    for _ in range(CASES):
        rows = simulated(site, some(POLICIES), some(CAPACITIES))
        assert rows == {name: whole[name] for name in rows}
        estimates = estimated(site, some(POLICIES))
        assert estimates == {name: orders[name] for name in estimates}
