"""The experiments: each rule at several prices on the second half of each log, their journal, and their figures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.sleep_rules.learned import NeedModel, fit, learned_rule, observations
from benchmarks.sleep_rules.needs import NodePrices
from benchmarks.sleep_rules.replays import Decide, Part, Weeks, part_of, read, run, weeks_of
from benchmarks.sleep_rules.scenarios import announced, scenario_rule
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak_studies.harness import ResultJournal

MADE_WITH = ("KTH-SP2", "CTC-SP2", "SDSC-BLUE")
"""The logs on which the rules of the product were designed; they also teach the rules of other logs."""

UNSEEN: Mapping[str, str] = {
    "SDSC-SP2": "SDSC-SP2",
    "LLNL-Atlas-2006-2.1-cln": "LLNL-Atlas",
    "theta_2022": "Theta",
    "UniLu-Gaia-2014-2": "UniLu-Gaia",
}
"""The logs that count: their names for readers by those of the files."""
TAUGHT_SHARE = 0.5

TIMEOUT, FORECAST, LATE, POOL, PLAN = "time-out", "forecast", "forecast-late", "green pool", "planned"
OWN_CYCLES, OWN_BOTH, OWN_DELAY = (f"learned, {what}" for what in ("cycles only", "cycles and delay", "delay first"))
OTHERS, SCENARIOS = "learned on other logs", "days of the past as scenarios"
ANNOUNCED = {share: f"time-out, {share} % of wide jobs announced" for share in (25, 50, 100)}

Rule = tuple[str, ...]
"""The kind of a rule and its numbers, as in the journal."""


def _priced(kind: str, cycles_s: Sequence[int], delays: int, doubt: int = 2) -> tuple[Rule, ...]:
    return tuple((kind, str(cycle_s), str(delays * cycle_s), str(doubt)) for cycle_s in cycles_s)


FAMILIES: Mapping[str, tuple[Rule, ...]] = {
    TIMEOUT: tuple((f"timeout:{idle}",) for idle in ("5min", "10min", "1000s", "30min", "1h", "2h")),
    POOL: tuple((f"green-pool:{share}",) for share in ("1%", "2%", "5%", "10%", "20%")),
    FORECAST: tuple((f"forecast:{worth}",) for worth in ("40min", "1h", "90min", "3h")),
    LATE: tuple((f"forecast-late:{worth}",) for worth in ("40min", "1h", "90min", "3h")),
    PLAN: tuple((f"planned:{idle}",) for idle in ("5min", "10min", "1000s", "30min", "1h", "2h")),
    OWN_BOTH: _priced("learned", (1500, 3000, 6000), 4),
    **{
        name: tuple(("announced", str(share), str(idle_s)) for idle_s in (600, 1000, 1800, 3600))
        for share, name in ANNOUNCED.items()
    },
    SCENARIOS: _priced("scenarios", (1500, 3000, 6000), 4),
    OWN_CYCLES: _priced("learned", (2400, 4800, 9600), 0),
    OWN_DELAY: _priced("learned", (600, 1200, 2400), 16, doubt=1),
    OTHERS: _priced("learned-elsewhere", (1500, 3000, 6000), 4),
}
"""Rules of one kind and one ratio of prices, by how much they save."""


@dataclass(frozen=True)
class RuleExperiment:
    """One rule on the second half of a log; the seed is that of the late submissions, the fit and the announcements."""

    log: str
    rule: Rule
    seed: int


def experiments(logs: Sequence[str], families: Sequence[str], seed: int) -> list[RuleExperiment]:
    """Return the experiments, one kind of rules after the other."""
    return [RuleExperiment(log, rule, seed) for family in families for log in logs for rule in FAMILIES[family]]


class Laboratory:
    """Runs experiments on the logs of a folder and of its subfolders."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self.test_part = cache(self._test_part)
        self._own_model = cache(self._fit_own)
        self._other_model = cache(self._fit_others)

    def _part(self, log: str, from_share: float, until_share: float, warm_up_s: int | None = None) -> Part:
        paths = sorted(self._folder.rglob(f"{log}.swf.gz"))
        if len(paths) != 1:
            raise BadInput(
                f"{self._folder}: {len(paths)} files {log}.swf.gz", hint="--logs takes a folder with each log once"
            )
        source = read(paths[0])
        if warm_up_s is None:
            return part_of(source, from_share, until_share)
        return part_of(source, from_share, until_share, warm_up_s)

    def _test_part(self, log: str) -> Part:
        return self._part(log, TAUGHT_SHARE, 1.0).delayed(self._seed)

    def _fit_own(self, log: str) -> NeedModel:
        return fit([observations(self._part(log, 0.0, TAUGHT_SHARE, 0), self._seed)], self._seed)

    def _fit_others(self) -> NeedModel:
        taught = [observations(self._part(log, 0.0, TAUGHT_SHARE, 0), self._seed) for log in MADE_WITH]
        return fit(taught, self._seed)

    def rule_of(self, experiment: RuleExperiment) -> str | CapacityPolicy | Decide:
        """Return the rule for one replay."""
        kind, *numbers = experiment.rule
        part = self.test_part(experiment.log)
        if kind == "announced":
            return announced(part, int(numbers[0]) / 100, int(numbers[1]), self._seed)
        if not numbers:
            return kind
        prices = NodePrices(*(float(number) for number in numbers))
        if kind == "scenarios":
            return scenario_rule(part, prices)
        own = kind == "learned"
        return learned_rule(part, self._own_model(experiment.log) if own else self._other_model(), prices)

    def weeks(self, experiment: RuleExperiment) -> Weeks:
        """Return the result of an experiment."""
        part = self.test_part(experiment.log)
        return weeks_of(part, run(part, self.rule_of(experiment)))


def results(
    plan: Sequence[RuleExperiment], laboratory: Laboratory, out: Path
) -> Iterator[tuple[RuleExperiment, Weeks]]:
    """Yield the results in the order of the plan: those that the folder has, or computed now and added to it.

    A folder belongs to one version of this code and of the logs.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        journal = stack.enter_context(ResultJournal(out / "results.jsonl"))
        for experiment in plan:
            key = repr((experiment.log, experiment.rule, experiment.seed))
            if key in journal.known:
                found = Weeks(**{name: np.array(column) for name, column in journal.known[key].items()})
            else:
                found = laboratory.weeks(experiment)
                journal.add(key, asdict(experiment), {name: _texts(value) for name, value in vars(found).items()})
            yield experiment, found


def _texts(column: Float64) -> list[float]:
    return [float(value) for value in column]
