"""What a narrower priority band costs in saving: `python -m benchmarks.band_savings` writes ordering/bands.csv.

The logs of the archive have no QOS, so of ten users five have the QOS low, three usual and two urgent, by their number.
Slurm's multifactor priority orders the jobs, with the weights of the example in Slurm's manual and one for QOS; each
user has one share in the account of the log's group. Each log is laid on several weeks of the prices.
"""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.logs import price_file, trace_file
from benchmarks.savings import mondays, over
from offpeak.model.cluster import Cluster, NodeType, Pool
from offpeak.model.jobs import Trace
from offpeak.model.limits import PriorityOrder, PriorityWeights, Qos, SitePriority
from offpeak.model.request import Chunk, Request
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOGS = ("KTH-SP2", "SDSC-SP2", "CTC-SP2")
FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures" / "ordering" / "bands.csv"
WEEKS, BANDS = 4, (0, 10, 30, 100)
WEIGHTS = PriorityWeights(age=1000, fair_share=10_000, job_size=1000, partition=1000, qos=10_000)
QOS = {name: Qos(name, priority=priority) for name, priority in (("low", 0), ("usual", 50), ("urgent", 100))}
QOS_OF_TEN = (*("low",) * 5, *("usual",) * 3, *("urgent",) * 2)


def with_qos(trace: Trace) -> Trace:
    """Return the log with a QOS for each user; its unit counts as a node."""
    jobs = trace.jobs
    kinds, request = np.unique(np.stack((jobs.size, np.maximum(jobs.user, 0) % 10)), axis=1, return_inverse=True)
    requests = tuple(
        Request((), (Chunk(size),), apart=True, whole_nodes=True, qos=QOS_OF_TEN[user])
        for size, user in kinds.T.tolist()
    )
    return replace(trace, jobs=replace(jobs, request=request.ravel()), requests=requests, units_per_node=1)


def cluster_of(trace: Trace) -> Cluster:
    """Return the machine of the log, with QOS and multifactor priority."""
    nodes = int(trace.processors or trace.nodes or trace.jobs.size.max())
    priority = SitePriority(PriorityOrder.MULTIFACTOR, WEIGHTS)
    return Cluster((Pool(NodeType(1), frozenset(), nodes),), qos=QOS, priority=priority)


def policies() -> Iterator[Policy]:
    """Yield the site's own order, and the greedy order within each band."""
    yield parse_policy("easy", SchedulingSettings())
    for percent in BANDS:
        greedy = parse_policy("greedy", SchedulingSettings(priority_band_percent=percent))
        yield replace(greedy, name=f"greedy within {percent} %")


def row_of(name: str) -> list[str]:
    """Return the saving of a log by band [% of the bill], and the jobs' mean wait with the default band."""
    trace = with_qos(read_swf(trace_file(name), lenient=True))
    prices, jobs = price_file(), trace.jobs
    length_s = int((jobs.submit_s + jobs.runtime_s).max() - jobs.submit_s[0])
    savings: list[list[float]] = [[] for _ in BANDS]
    for start in mondays(read_series(prices, parse_layout("")), length_s, WEEKS):
        settings = Settings(prices=PriceSettings(file=prices))
        case = prepare(trace, settings, start=start.isoformat(), cluster=cluster_of(trace)).case
        _, *outcomes = compare(case, tuple(policies())).outcomes
        for of_band, outcome in zip(savings, outcomes, strict=True):
            of_band.append(outcome.saving_pct)
    return [name, f"{len(jobs):,}", *(over(of_band).text(2) for of_band in savings)]


def main() -> None:
    """Write the table."""
    heads = [f"band {percent} %" if percent < 100 else "any priority of one QOS" for percent in BANDS]
    rows = [["log", "jobs", *heads]]
    for name in LOGS:
        rows.append(row_of(name))
        print(rows[-1], flush=True)
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
