"""The study as a whole: plans the experiments, runs the missing ones and builds the report.

A key names a result by everything that it depends on: the experiment, the log, and the sources of `run`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from offpeak.compiled import sources_of
from offpeak.text import counted
from studies.dynamic_pricing.experiment import PricingExperiment, PricingResult, PricingSetup, parse_result
from studies.dynamic_pricing.figure import ladder_svg
from studies.dynamic_pricing.plan import PricingReplays, PricingSubject, paper_subjects, planned, subjects_of
from studies.dynamic_pricing.run import run
from studies.dynamic_pricing.tables import (
    PricingResults,
    alone_table,
    frequency_table,
    implied_table,
    ladder_table,
    letter_table,
    logs_table,
    paper_table,
    ratios_table,
)
from studies.logs import GENERATED, LogSource, StudyLog, find_logs, read_log, remembered_log
from studies.report import Report, StudyTable, folder_for
from studies.resumable import Progress, ResultJournal, StudyOrder, damaged, run_all

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: PricingExperiment, log_digest: str) -> str:
    """Return the key of an experiment on a log of that digest, under the present code."""
    told = json.dumps([asdict(experiment), log_digest, code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


TITLE = "Dynamic pricing: Yang et al., SC 2013, re-run"
JOURNAL = "results.jsonl"
START_NOTE = (
    "starting point: EASY backfilling on both sides, a pass every 10 s, window of 20 jobs, overtaking ends after 24 h, "
    "users' estimates, 100 to 300 W per unit drawn uniformly for each job, 75 W idle, prices 1:3, on-peak 09:00-23:00"
)
CLOCK_NOTE = (
    "clock: on-peak hours hold in the log's own time zone, in UTC where its header names none; a log without a date "
    "begins on a Monday"
)


def dynamic_pricing(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    everywhere, studied = subjects_of(logs), paper_subjects(logs)
    replays = PricingReplays(order.replays, order.seed)
    results = _results(planned(everywhere, studied, replays), logs, order, progress)
    notes = (START_NOTE, CLOCK_NOTE, _replays_note(replays, len(results)), *_log_notes(logs), *left_out)
    answers = PricingResults(results, replays)
    return Report(TITLE, notes, _tables(answers, everywhere, studied), {"ladder.svg": ladder_svg(answers, studied)})


def _results(
    plan: Sequence[PricingExperiment], logs: Sequence[StudyLog], order: StudyOrder, progress: Progress
) -> Mapping[PricingExperiment, PricingResult]:
    digests = {log.source.name: log.digest for log in logs}
    keys = {experiment: key_of(experiment, digests[experiment.log]) for experiment in plan}
    with ResultJournal(folder_for(order.out) / JOURNAL) as journal:
        results = {each: _parsed(journal, key) for each, key in keys.items() if key in journal.known}
        progress(len(results), len(plan))

        def done(experiment: PricingExperiment, result: PricingResult) -> None:
            results[experiment] = result
            journal.add(keys[experiment], asdict(experiment), asdict(result))
            progress(len(results), len(plan))

        missing = [experiment for experiment in plan if experiment not in results]
        if missing:
            _warm_up()
        sources = {log.source.name: (log.source, log.digest) for log in logs}
        run_all(partial(_answer, sources), missing, order.processes, done)
    return results


def _parsed(journal: ResultJournal, key: str) -> PricingResult:
    told: Any = journal.known[key]
    try:
        return parse_result(told)
    except (KeyError, TypeError):
        raise damaged(f"{journal.path}: the result of key {key}") from None


def _answer(sources: Mapping[str, tuple[LogSource, str]], experiment: PricingExperiment) -> PricingResult:
    return run(experiment, remembered_log(*sources[experiment.log]))


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    run(PricingExperiment(GENERATED, 0, 0, PricingSetup(first_jobs=100)), read_log(LogSource(GENERATED, None)))


def _replays_note(replays: PricingReplays, experiments: int) -> str:
    count = counted(replays.count, "replay")
    return (
        f"{count} of each case, with submit times 0 to 60 s later and power drawn anew: seeds ({replays.seed}, 0) to "
        f"({replays.seed}, {replays.count - 1}); {experiments:,} experiments of two to three policies each"
    )


def _log_notes(logs: Sequence[StudyLog]) -> tuple[str, ...]:
    if logs[0].source.path is None:
        return ("log: generated after Lublin and Feitelson, 5,000 jobs on 256 nodes; real ones come with --logs",)
    return ()


def _tables(
    answers: PricingResults, everywhere: Sequence[PricingSubject], studied: Sequence[PricingSubject]
) -> tuple[StudyTable, ...]:
    ladders = (ladder_table(answers, subject, number) for number, subject in enumerate(studied, start=1))
    alone = (alone_table(answers, subject, number) for number, subject in enumerate(studied, start=1))
    return (
        paper_table(answers, studied),
        frequency_table(answers, studied),
        *ladders,
        *alone,
        letter_table(answers, studied),
        implied_table(),
        logs_table(answers, everywhere),
        ratios_table(answers, everywhere),
    )
