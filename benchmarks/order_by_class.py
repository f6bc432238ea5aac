"""What the order of the queue saves on which machines: `python -m benchmarks.order_by_class`.

An order saves by starting jobs of high power while electricity is cheap, so its worth depends on how much busy nodes
differ, and on what idle ones draw. SDSC-BLUE is laid on the same weeks of the prices as in benchmarks/savings.py, with
the power of each bundled node class, and what came of it is written to order_by_class.csv.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.logs import price_file, trace_file
from benchmarks.savings import ORDERS, mondays, over
from offpeak.model.job_power import assumed_power
from offpeak.model.node_class_file import bundled_node_class
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.replay import PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOG = "SDSC-BLUE"
CLASSES = ("dune", "jufit", "juggle", "server", "sketch")
RECORD = Path(__file__).with_name("order_by_class.csv")
HEAD = ("node_class", "start", *ORDERS)


def measure(path: Path) -> None:
    """Lay the log on the prices with the power of each class and write what the orders save [%]."""
    trace, prices = read_swf(trace_file(LOG)), PriceSettings(file=price_file())
    length_s = int((trace.jobs.submit_s + trace.jobs.runtime_s).max() - trace.jobs.submit_s[0])
    policies = tuple(parse_policy(policy, SchedulingSettings()) for policy in ("easy", *ORDERS))
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(HEAD)
        for name in CLASSES:
            settings = Settings(prices=prices, power=PowerSettings(node_class=name))
            for start in mondays(read_series(price_file(), parse_layout("")), length_s):
                case = prepare(trace, settings, start=start.isoformat()).case
                saved = (outcome.saving_pct for outcome in compare(case, policies).outcomes[1:])
                rows.writerow((name, start.isoformat(), *(round(each, 4) for each in saved)))
            print(name, file=sys.stderr, flush=True)


def recorded(path: Path = RECORD) -> dict[tuple[str, str], list[float]]:
    """Return the recorded savings by node class and order."""
    found: dict[tuple[str, str], list[float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            for order in ORDERS:
                found.setdefault((row["node_class"], order), []).append(float(row[order]))
    return found


def table(found: dict[tuple[str, str], list[float]]) -> Iterator[str]:
    """Yield the lines of docs/benchmarks.md: a row a class."""
    for name in dict.fromkeys(each for each, _ in found):
        node = bundled_node_class(name)
        busy = assumed_power(node)
        cells = [f"{busy.low_w:.0f} to {busy.high_w:.0f} W", f"{node.idle_w:.0f} W"]
        for order in ORDERS:
            saved = over(found[name, order])
            sure = "" if saved.low > 0 or saved.high < 0 else ", not significant"
            cells.append(f"{saved.text(2)} %{sure}")
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    measure(RECORD)
    print("\n".join(table(recorded())))
