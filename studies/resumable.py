"""Runs the experiments of a study whose results its folder does not have yet, and keeps each as it comes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from studies.journal import Journal, damaged
from studies.order import Order, Progress
from studies.parallel import run_all
from studies.write import folder_for

JOURNAL = "results.jsonl"

Experiment = TypeVar("Experiment")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Runner(Generic[Experiment, Result]):
    """How an experiment is run, in another process perhaps, and how its result is read from what was kept of it.

    `parse` raises KeyError, TypeError or AttributeError for what is no result. `warm_up` compiles the kernels here,
    once, before several processes would each begin to.
    """

    answer: Callable[[Experiment], Result]
    parse: Callable[[Mapping[str, Any]], Result]
    warm_up: Callable[[], object]


def results_of(
    runner: Runner[Experiment, Result], keys: Mapping[Experiment, str], order: Order, progress: Progress
) -> Mapping[Experiment, Result]:
    """Return the results of all experiments, by key known from before or run now. BadInput, CannotWrite."""
    with Journal(folder_for(order.out) / JOURNAL) as journal:
        results = {each: _parsed(runner, journal, key) for each, key in keys.items() if key in journal.known}
        progress(len(results), len(keys))

        def done(experiment: Experiment, result: Result) -> None:
            results[experiment] = result
            journal.add(keys[experiment], asdict(experiment), asdict(result))  # type: ignore[call-overload]
            progress(len(results), len(keys))

        missing = [experiment for experiment in keys if experiment not in results]
        if missing:
            runner.warm_up()
        run_all(runner.answer, missing, order.processes, done)
    return results


def _parsed(runner: Runner[Experiment, Result], journal: Journal, key: str) -> Result:
    try:
        return runner.parse(journal.known[key])
    except (KeyError, TypeError, AttributeError):
        raise damaged(f"{journal.path}: the result of key {key}") from None
