"""Are the paper's 23 days of CEA Curie special? All such periods of the log: `python -m benchmarks.cooling_days`.

The study of profit and cooling plans days 131 to 153 of the log, the paper's. This script cuts the log into periods of
23 days, one after the other, and compares MultiSearch with the rule-based schedulers on each of them, in the scenario
"air summer"; the other scenarios differ by hundredths of a per cent. Jobs that are left at the end of a period are not
planned. A row is written as soon as its period is done, and a second run computes only the rows that are missing. A
period takes a minute and a half of processor time. `python -m benchmarks.cooling_days rules` writes the table of the
rule-based schedulers on the paper's days instead, in a minute.
"""

import csv
import sys
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.logs import trace_file
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.plugin.planner.problem import Work
from offpeak_studies.profit_cooling.run import (
    DAYS,
    LEAST_W,
    NODE_CORES,
    NODES,
    PRICE_PER_KWH,
    REVENUE_PER_CORE_H,
    SCENARIOS,
    PlannerSite,
    curie_jobs,
    least_pue,
    machine,
    rolled,
    work_of,
)
from offpeak_studies.profit_cooling.solvers import RULE_BASED
from offpeak_studies.profit_cooling.study import gain_pct

SCENARIO, SEED = "air summer", 1
PERIODS = 11
"""The log has 253 days."""
RECORD = Path(__file__).parent.parent / "docs" / "figures" / "profit-cooling" / "days.csv"
HEAD = (
    "days", "jobs", "work, machine = 1", "best rule", "gain over it, %", "at most, %", "best strict rule",
    "gain over that, %", "at most that, %", "gain over strict EST, %", "median gap, %",
)  # fmt: skip


def most_core_h(work: Work, days: int, nodes: int) -> float:
    """Return the core-hours that the jobs could use by then if each ran on any number of cores from its release on."""
    order = np.argsort(work.release_s, kind="stable")
    at_s = work.release_s[order]
    core_s = (work.units * work.cores * work.duration_s)[order].astype(np.float64)
    waiting, used, rate = 0.0, 0.0, float(nodes * NODE_CORES)
    for released, length_s in zip(core_s.tolist(), np.diff(at_s, append=days * DAY_S).tolist(), strict=True):
        waiting += released
        done = min(waiting, rate * max(length_s, 0))
        waiting, used = waiting - done, used + done
    return used / HOUR_S


def profit_of(work: Work, solver: str, days: int, nodes: int) -> tuple[float, list[float]]:
    """Return the profit of the days, and their gaps to the upper bounds where the solver is a search."""
    place = PlannerSite(machine(nodes), SCENARIOS[SCENARIO])
    plans = list(islice(rolled(work, place, solver, 0.0, days), days))
    wrong = [violation for plan in plans for violation in plan.violations]
    if wrong:
        raise SystemExit(f"the plan is wrong: {wrong[0]}")
    return sum(plan.profit for plan in plans), [plan.gap for plan in plans if plan.gap is not None]


def measure_period(log: Path, first_day: int, *, days: int = DAYS, nodes: int = NODES) -> tuple[str, ...]:
    """Return the row of the period that begins with that day of the log."""
    jobs = curie_jobs(log, first_day=first_day, days=days)
    work = work_of(jobs, SEED)
    rules = {rule: profit_of(work, rule, days, nodes)[0] for rule in RULE_BASED}
    strict = {rule: profit for rule, profit in rules.items() if rule.startswith("strict")}
    searched, gaps = profit_of(work, "multi", days, nodes)
    core_h = float((jobs.size * jobs.runtime_s).sum()) / HOUR_S
    earned = REVENUE_PER_CORE_H - LEAST_W / 1000 * least_pue(SCENARIOS[SCENARIO]) * PRICE_PER_KWH
    most = most_core_h(work, days, nodes) * earned
    cells = [
        f"{first_day} to {first_day + days - 1}",
        f"{len(jobs):,}",
        f"{core_h / (nodes * NODE_CORES * days * 24):.2f}",
    ]
    for profits in (rules, strict):
        best = max(profits, key=profits.__getitem__)
        cells += [best, f"{gain_pct(searched, profits[best]):.2f}", f"{gain_pct(most, profits[best]):.2f}"]
    return (*cells, f"{gain_pct(searched, rules['strict EST']):.2f}", f"{100 * float(np.median(gaps)):.2f}")


RULES = RECORD.with_name("rules.csv")
RULES_HEAD = ("rule", "cores in use", "last job ends after")


def rule_row(log: Path, rule: str) -> tuple[str, ...]:
    """Return the row of a rule on the paper's days: the cores in use until the last submission, and the last end."""
    work = work_of(curie_jobs(log), SEED)
    until_s, used_core_s, last_s = int(work.release_s.max()), 0.0, 0
    for day in rolled(work, PlannerSite(machine(NODES), SCENARIOS[SCENARIO]), rule, 0.0, DAYS):
        jobs, plan = day.problem.work, day.planned.plan
        start_s = day.from_s + plan.start_s
        within_s = np.minimum(start_s + jobs.duration_s, until_s) - np.minimum(start_s, until_s)
        used_core_s += float((jobs.units * jobs.cores * within_s)[plan.placed].sum())
        last_s = max(last_s, day.last_end_s)
    return rule, f"{100 * used_core_s / (NODES * NODE_CORES * until_s):.1f} %", f"{last_s / DAY_S:.1f} days"


def measure_rules() -> None:
    """Write the table of the rules."""
    with RULES.open("w", newline="") as file:
        rows = [rule_row(trace_file("CEA-curie"), rule) for rule in RULE_BASED]
        csv.writer(file, lineterminator="\n").writerows([RULES_HEAD, *rows])


def measure(path: Path = RECORD) -> None:
    """Append the rows of periods that the file does not have, then order them by day."""
    log, rows = trace_file("CEA-curie"), dict[str, list[str]]()
    if path.exists():
        with path.open(newline="") as file:
            rows = {row[0]: row for row in csv.reader(file) if row[0] != HEAD[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    # The periods in the middle first: an interrupted run then has the paper's days.
    for period in sorted(range(PERIODS), key=lambda number: abs(number - PERIODS // 2)):
        first_day = DAYS * period
        if f"{first_day} to {first_day + DAYS - 1}" in rows:
            continue
        row = measure_period(log, first_day)
        rows[row[0]] = list(row)
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEAD)
            ordered: list[list[str]] = sorted(rows.values(), key=lambda each: int(each[0].split()[0]))
            writer.writerows(ordered)
        print(", ".join(row), file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["rules"]:
        measure_rules()
    else:
        measure()
