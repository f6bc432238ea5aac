"""The study as a whole: plans the experiments, runs those that are missing, and tells what they come to."""

from collections.abc import Mapping, Sequence
from functools import partial

from offpeak.text import counted
from studies.dynamic_pricing.logs import GENERATED, Log, Source, find_logs, read_log, remembered_log
from studies.online_simulation.answers import Answers
from studies.online_simulation.claims import claims_table
from studies.online_simulation.experiment import ALWAYS_ON, OLS, Experiment, Replays, Setup
from studies.online_simulation.figures import figures
from studies.online_simulation.keys import key_of
from studies.online_simulation.plan import planned
from studies.online_simulation.reading_tables import knowledge_table, readings_table
from studies.online_simulation.result import Result, parse_result
from studies.online_simulation.run import run
from studies.online_simulation.subject import Subject, subjects_of
from studies.online_simulation.tables import logs_table, periods_table, policies_table, servers_table
from studies.order import Order, Progress
from studies.report import Report, Table
from studies.resumable import Runner, results_of

TITLE = "Nodes that sleep by online simulation: Lawson and Smirni, ICS 2005, re-run"
SETUP_NOTE = (
    "setup, the paper's: EASY backfilling, exact run times known, S = 200, OLS decided weekly from the first "
    "submission on, transitions that take no time, every processor by itself; slowdown is 1 + wait / max(10 s, run)"
)
SLEEP_NOTE = "nodes: 200 W idle, 15 W off; `server` takes 60 s down and 300 s up"


def online_simulation(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    subjects = subjects_of(logs)
    replays = Replays(order.replays, order.seed)
    results = _results(planned(subjects, replays), [subject.log for subject in subjects], order, progress)
    notes = (SETUP_NOTE, SLEEP_NOTE, _replays_note(replays, len(results)), *_log_notes(subjects), *left_out)
    answers = Answers(results, replays)
    return Report(TITLE, notes, _tables(answers, subjects), figures(answers, subjects))


def _results(
    plan: Sequence[Experiment], logs: Sequence[Log], order: Order, progress: Progress
) -> Mapping[Experiment, Result]:
    sources = {log.source.name: (log.source, log.digest) for log in logs}
    keys = {experiment: key_of(experiment, sources[experiment.log][1]) for experiment in plan}
    return results_of(Runner(partial(_answer, sources), parse_result, _warm_up), keys, order, progress)


def _answer(sources: Mapping[str, tuple[Source, str]], experiment: Experiment) -> Result:
    return run(experiment, remembered_log(*sources[experiment.log]))


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    log = read_log(Source(GENERATED, None))
    for capacity in (ALWAYS_ON, OLS):
        run(Experiment(GENERATED, 0, 0, Setup(log.size, capacity)), log)


def _replays_note(replays: Replays, experiments: int) -> str:
    count = counted(replays.count, "replay")
    return (
        f"{count} of each case, with submit times 0 to 60 s later: seeds ({replays.seed}, 0) to ({replays.seed}, "
        f"{replays.count - 1}); a quarter as many of hourly OLS, of what is made otherwise with daily OLS, and of each "
        f"later begin of the weeks; {counted(experiments, 'experiment')}"
    )


def _log_notes(subjects: Sequence[Subject]) -> tuple[str, ...]:
    if subjects[0].log.source.path is None:
        return ("log: generated after Lublin and Feitelson, 5,000 jobs on 256 nodes; real ones come with --logs",)
    sizes = (
        f"{each.name} runs on the paper's {each.size:,} processors; its header has {each.log.size:,}"
        for each in subjects
        if each.size != each.log.size
    )
    return tuple(sizes)


def _tables(answers: Answers, subjects: Sequence[Subject]) -> tuple[Table, ...]:
    return (
        logs_table(subjects),
        claims_table(answers, subjects),
        policies_table(answers, subjects),
        periods_table(answers, subjects),
        knowledge_table(answers, subjects),
        readings_table(answers, subjects),
        servers_table(answers, subjects),
    )
