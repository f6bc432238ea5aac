"""The study as a whole: plans the experiments, runs those that are missing, and tells what they come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.text import counted
from sim_backend.sample import SAMPLE_PRICES
from studies.dynamic_pricing.logs import Source, find_logs, remembered_log
from studies.order import Order, Progress
from studies.price_capacity.answers import Answers
from studies.price_capacity.experiment import Experiment
from studies.price_capacity.figure import trade_svg
from studies.price_capacity.keys import digest_of, key_of
from studies.price_capacity.plan import START, Replays, planned
from studies.price_capacity.prices import price_notes, remembered_prices
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
    laid = dict.fromkeys(note for log in logs for note in price_notes(log, prices))
    names = [log.source.name for log in logs]
    digests, prices_digest = {log.source.name: log.digest for log in logs}, digest_of(prices)
    keys = {each: key_of(each, digests[each.log], prices_digest) for each in planned(names, replays)}
    answer = _Answer({log.source.name: (log.source, log.digest) for log in logs}, prices)
    runner = Runner(answer, parse_result, lambda: answer(Experiment(names[0], 0, 0, START)))
    answers = Answers(results_of(runner, keys, order, progress), replays)
    notes = (START_NOTE, *laid, _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(answers, names), factors_table(answers, names))
    return Report(TITLE, notes, tables, {"trade.svg": trade_svg(answers, names)})


@dataclass(frozen=True)
class _Answer:
    """Runs an experiment on the log that it names, in any process."""

    sources: Mapping[str, tuple[Source, str]]
    prices: Path

    def __call__(self, experiment: Experiment) -> Result:
        source = self.sources[experiment.log]
        return run(experiment, remembered_log(*source), remembered_prices(*source, self.prices))


def _replays_note(replays: Replays, experiments: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each case, replay number i of the i-th 30 days of the log (of 120 days "
        f"where jobs are a quarter as long, and so on) at the prices of its i-th 30 days, with submit times 0 to 60 s "
        f"later and draws of jobs by chance: seeds ({replays.seed}, 0) and up; {counted(experiments, 'experiment')}"
    )
