"""The study as a whole: plans the experiments, runs those that are missing, and tells what they come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from offpeak.plural import counted
from offpeak.settings import PriceSettings
from sim_backend.case import log_span
from sim_backend.electricity import Prices, prices_of
from sim_backend.sample import SAMPLE_PRICES
from studies.dynamic_pricing.logs import Log, Source, find_logs, remembered_log
from studies.order import Order, Progress
from studies.price_capacity.answers import Answers
from studies.price_capacity.experiment import Experiment
from studies.price_capacity.figure import trade_svg
from studies.price_capacity.keys import digest_of, key_of
from studies.price_capacity.plan import START, Replays, planned
from studies.price_capacity.result import Result, parse_result
from studies.price_capacity.run import run
from studies.price_capacity.tables import factors_table, policies_table
from studies.report import Report
from studies.resumable import Runner, results_of

TITLE = "Fewer nodes in dear hours: does it pay?"
START_NOTE = (
    "starting point: EASY with users' estimates, 30 days of the log at a load of 70 %, a node a unit of the log, class "
    "`server` (200 W idle, 480 to 700 W in use, 15 W off, 60 s down, 300 s up), prices known 24 h ahead; profile:1h:S "
    "plans the nodes on offer anew each hour and keeps the mean slowdown of the known jobs at S or below, by estimates"
)


def price_capacity(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    prices, replays = order.prices or SAMPLE_PRICES, Replays(order.replays, order.seed)
    names = [log.source.name for log in logs]
    digests, prices_digest = {log.source.name: log.digest for log in logs}, digest_of(prices)
    keys = {each: key_of(each, digests[each.log], prices_digest) for each in planned(names, replays)}
    answer = _Answer({log.source.name: (log.source, log.digest) for log in logs}, prices)
    runner = Runner(answer, parse_result, lambda: answer(Experiment(names[0], 0, 0, START)))
    answers = Answers(results_of(runner, keys, order, progress), replays)
    notes = (START_NOTE, f"prices: {prices.name}", _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(answers, names), factors_table(answers, names))
    return Report(TITLE, notes, tables, {"trade.svg": trade_svg(answers, names)})


@dataclass(frozen=True)
class _Answer:
    """Runs an experiment on the log that it names, in any process."""

    sources: Mapping[str, tuple[Source, str]]
    prices: Path

    def __call__(self, experiment: Experiment) -> Result:
        log = remembered_log(*self.sources[experiment.log])
        return run(experiment, log, _laid(self.sources[experiment.log], self.prices))


@lru_cache(maxsize=2)
def _laid(source: tuple[Source, str], prices: Path) -> Prices:
    """Return the prices laid on the whole log; of those without a value the week before."""
    log: Log = remembered_log(*source)
    return prices_of(log_span(log.trace, log.trace.jobs), PriceSettings(file=prices, fill_gaps=True), None)


def _replays_note(replays: Replays, experiments: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of the starting point and half as many of each factor, replay number i of "
        f"the i-th 30 days of the log, with submit times 0 to 60 s later and draws of jobs by chance: seeds "
        f"({replays.seed}, 0) and up; {counted(experiments, 'experiment')}"
    )
