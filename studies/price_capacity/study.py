"""The study as a whole: plans the experiments, runs the missing ones and builds the report.

A key names a result by everything that it depends on: the experiment, the log, the prices, and the sources of
`run`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from offpeak.text import counted
from sim_backend.sample import SAMPLE_PRICES
from studies.logs import LogSource, find_logs, remembered_log
from studies.price_capacity.report import CapacityResults, factors_table, policies_table, trade_svg
from studies.price_capacity.run import (
    NODES,
    START,
    CapacityExperiment,
    CapacityReplays,
    CapacityResult,
    parse_result,
    planned,
    price_notes,
    remembered_prices,
    run,
)
from studies.report import Report
from studies.resumable import Progress, Runner, StudyOrder, results_of

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: CapacityExperiment, log_digest: str, prices_digest: str) -> str:
    """Return the key of an experiment on a log and prices of these digests, under the present code and node class."""
    told = json.dumps([asdict(experiment), log_digest, prices_digest, code_digest(), asdict(NODES)])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def digest_of(prices: Path) -> str:
    """Return a digest of a price file, compressed or not. BadPrices if it cannot be read."""
    return hashlib.sha256(read_bytes(prices, BadPrices)).hexdigest()[:16]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


TITLE = "Fewer nodes in dear hours: does it pay?"
START_NOTE = (
    "starting point: EASY with users' estimates, 30 days of the log at a load of 70 %, a node a unit of the log, class "
    "`server` (200 W idle, 480 to 700 W in use, 15 W off, 60 s down, 300 s up), prices known 24 h ahead; profile:1h:S "
    "plans the nodes on offer anew each hour and keeps the mean slowdown of the known jobs at S or below, by estimates"
)


def price_capacity(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    prices, replays = order.prices or SAMPLE_PRICES, CapacityReplays(order.replays, order.seed)
    laid = dict.fromkeys(note for log in logs for note in price_notes(log, prices))
    names = [log.source.name for log in logs]
    digests, prices_digest = {log.source.name: log.digest for log in logs}, digest_of(prices)
    keys = {each: key_of(each, digests[each.log], prices_digest) for each in planned(names, replays)}
    answer = _Answer({log.source.name: (log.source, log.digest) for log in logs}, prices)
    runner = Runner(answer, parse_result, lambda: answer(CapacityExperiment(names[0], 0, 0, START)))
    answers = CapacityResults(results_of(runner, keys, order, progress), replays)
    notes = (START_NOTE, *laid, _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(answers, names), factors_table(answers, names))
    return Report(TITLE, notes, tables, {"trade.svg": trade_svg(answers, names)})


@dataclass(frozen=True)
class _Answer:
    """Runs an experiment on the log that it names, in any process."""

    sources: Mapping[str, tuple[LogSource, str]]
    prices: Path

    def __call__(self, experiment: CapacityExperiment) -> CapacityResult:
        source = self.sources[experiment.log]
        return run(experiment, remembered_log(*source), remembered_prices(*source, self.prices))


def _replays_note(replays: CapacityReplays, experiments: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each case, replay number i of the i-th 30 days of the log (of 120 days "
        f"where jobs are a quarter as long, and so on) at the prices of its i-th 30 days, with submit times 0 to 60 s "
        f"later and draws of jobs by chance: seeds ({replays.seed}, 0) and up; {counted(experiments, 'experiment')}"
    )
