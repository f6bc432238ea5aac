"""`python -m benchmarks.sleep_rules --logs FOLDER --out FOLDER` runs what is missing, then writes the tables to OUT.

The tables in docs are those of seed 1. `--kinds` runs some kinds of rules: others are left out of the tables.
"""

import argparse
import time
from pathlib import Path

from benchmarks.sleep_rules.experiments import FAMILIES, UNSEEN, Laboratory, experiments, results
from benchmarks.sleep_rules.replays import Weeks
from benchmarks.sleep_rules.tables import (
    AHEAD_HEADER,
    EQUAL_HEADER,
    RULES_HEADER,
    ahead_row,
    equal_rows,
    rule_rows,
    write,
)


def main() -> None:
    """Run the experiments and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, required=True, help="a folder with the logs of the archive")
    parser.add_argument("--out", type=Path, default=Path("sleep-rules"), help="results, which a later run goes on from")
    parser.add_argument("--only", nargs="*", default=list(UNSEEN), help="the logs that count")
    parser.add_argument(
        "--kinds", nargs="*", default=list(FAMILIES), help="the kinds of rules, the time-out among them"
    )
    parser.add_argument("--seed", type=int, default=1)
    order = parser.parse_args()
    laboratory = Laboratory(order.logs, order.seed)
    begin_s = time.monotonic()
    found: dict[str, dict[tuple[str, ...], Weeks]] = {log: {} for log in order.only}
    for experiment, weeks in results(experiments(order.only, order.kinds, order.seed), laboratory, order.out):
        found[experiment.log][experiment.rule] = weeks
        took_s = time.monotonic() - begin_s
        print(f"{took_s:6.0f} s  {experiment.log}: {' '.join(experiment.rule)}", flush=True)
    parts = {log: laboratory.test_part(log) for log in order.only}
    write(
        order.out / "better_rules.csv",
        EQUAL_HEADER,
        [row for log in order.only for row in equal_rows(log, found[log], parts[log], order.seed)],
    )
    write(
        order.out / "better_rules_each.csv",
        RULES_HEADER,
        [row for log in order.only for row in rule_rows(log, found[log])],
    )
    write(order.out / "seen_ahead.csv", AHEAD_HEADER, [ahead_row(log, found[log], parts[log]) for log in order.only])


if __name__ == "__main__":
    main()
