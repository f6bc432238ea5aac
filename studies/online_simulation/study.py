"""The study as a whole: plans the experiments, runs the missing ones and builds the report.

A key names a result by everything that it depends on: the experiment, the log, the sources of `run`, and the
nodes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.text import counted
from studies.logs import GENERATED, LogSource, StudyLog, find_logs, read_log, remembered_log
from studies.online_simulation.experiment import (
    ALWAYS_ON,
    OLS,
    OnlineExperiment,
    OnlineReplays,
    OnlineResult,
    OnlineSetup,
    parse_result,
)
from studies.online_simulation.figures import figures
from studies.online_simulation.plan import OnlineSubject, planned, subjects_of
from studies.online_simulation.run import node_class_of, run
from studies.online_simulation.tables import (
    OnlineResults,
    claims_table,
    knowledge_table,
    logs_table,
    periods_table,
    policies_table,
    readings_table,
    servers_table,
)
from studies.report import Report, StudyTable
from studies.resumable import Progress, Runner, StudyOrder, results_of

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: OnlineExperiment, log_digest: str) -> str:
    """Return the key of an experiment on a log of that digest, under the present code and node classes."""
    nodes = asdict(node_class_of(experiment.setup.nodes))
    told = json.dumps([asdict(experiment), log_digest, code_digest(), nodes])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


TITLE = "Nodes that sleep by online simulation: Lawson and Smirni, ICS 2005, re-run"
SETUP_NOTE = (
    "setup, the paper's: EASY backfilling, exact run times known, S = 200, OLS decided weekly from the first "
    "submission on, transitions that take no time, every processor by itself; slowdown is 1 + wait / max(10 s, run)"
)
SLEEP_NOTE = "nodes: 200 W idle, 15 W off; `server` takes 60 s down and 300 s up"


def online_simulation(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    subjects = subjects_of(logs)
    replays = OnlineReplays(order.replays, order.seed)
    results = _results(planned(subjects, replays), [subject.log for subject in subjects], order, progress)
    notes = (SETUP_NOTE, SLEEP_NOTE, _replays_note(replays, len(results)), *_log_notes(subjects), *left_out)
    answers = OnlineResults(results, replays)
    return Report(TITLE, notes, _tables(answers, subjects), figures(answers, subjects))


def _results(
    plan: Sequence[OnlineExperiment], logs: Sequence[StudyLog], order: StudyOrder, progress: Progress
) -> Mapping[OnlineExperiment, OnlineResult]:
    sources = {log.source.name: (log.source, log.digest) for log in logs}
    keys = {experiment: key_of(experiment, sources[experiment.log][1]) for experiment in plan}
    return results_of(Runner(partial(_answer, sources), parse_result, _warm_up), keys, order, progress)


def _answer(sources: Mapping[str, tuple[LogSource, str]], experiment: OnlineExperiment) -> OnlineResult:
    return run(experiment, remembered_log(*sources[experiment.log]))


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    log = read_log(LogSource(GENERATED, None))
    for capacity in (ALWAYS_ON, OLS):
        run(OnlineExperiment(GENERATED, 0, 0, OnlineSetup(log.size, capacity)), log)


def _replays_note(replays: OnlineReplays, experiments: int) -> str:
    count = counted(replays.count, "replay")
    return (
        f"{count} of each case, with submit times 0 to 60 s later: seeds ({replays.seed}, 0) to ({replays.seed}, "
        f"{replays.count - 1}); a quarter as many of hourly OLS, of what is made otherwise with daily OLS, and of each "
        f"later begin of the weeks; {counted(experiments, 'experiment')}"
    )


def _log_notes(subjects: Sequence[OnlineSubject]) -> tuple[str, ...]:
    if subjects[0].log.source.path is None:
        return ("log: generated after Lublin and Feitelson, 5,000 jobs on 256 nodes; real ones come with --logs",)
    sizes = (
        f"{each.name} runs on the paper's {each.size:,} processors; its header has {each.log.size:,}"
        for each in subjects
        if each.size != each.log.size
    )
    return tuple(sizes)


def _tables(answers: OnlineResults, subjects: Sequence[OnlineSubject]) -> tuple[StudyTable, ...]:
    return (
        logs_table(subjects),
        claims_table(answers, subjects),
        policies_table(answers, subjects),
        periods_table(answers, subjects),
        knowledge_table(answers, subjects),
        readings_table(answers, subjects),
        servers_table(answers, subjects),
    )
