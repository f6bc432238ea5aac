"""The study as a whole: plans the experiments, runs the missing ones and builds the report.

A key names a result by everything that it depends on: the experiment, the log, the sources of `run`, and the
node class.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.text import counted
from sim_backend.powered_replay import PoweredMachine
from studies.logs import GENERATED, LogSource, find_logs, read_log, remembered_log
from studies.report import Report
from studies.resumable import Progress, Runner, StudyOrder, results_of
from studies.sleeping.figure import front_svg
from studies.sleeping.run import (
    ALWAYS_ON,
    FAMILIES,
    LATE,
    NODES,
    POLICIES,
    SleepingExperiment,
    SleepingReplays,
    SleepingResult,
    experiments,
    machine_of,
    parse_result,
    run,
)
from studies.sleeping.tables import SleepingResults, equal_energy_table, policies_table

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: SleepingExperiment, log_digest: str) -> str:
    """Return the key of an experiment on a log of that digest, under the present code and node class."""
    told = json.dumps([asdict(experiment), log_digest, code_digest(), asdict(NODES)])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of the sources that a replay runs through: `run` and what it imports of ours, kernels too."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources_of(RUN))).hexdigest()


TITLE = "Nodes that sleep: energy, boot delays and power cycles of every rule"
SETUP_NOTE = (
    "setup: EASY with users' estimates; nodes of the class `sketch`: 150 W idle, 10 W off, 60 s down, 180 s up at 200 "
    "W; slowdown is 1 + wait / max(10 s, run)"
)


def sleeping(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    replays = SleepingReplays(order.replays, order.seed)
    sources = {log.source.name: (log.source, log.digest) for log in logs}
    plan = [each for name in sources for policy in POLICIES for each in experiments(name, policy, replays)]
    keys = {each: key_of(each, sources[each.log][1]) for each in plan}
    runner = Runner(partial(_answer, sources), parse_result, _warm_up)
    answers = SleepingResults(results_of(runner, keys, order, progress), replays)
    machines = ", ".join(f"{log.source.name} {_nodes_text(machine_of(log))}" for log in logs)
    notes = (SETUP_NOTE, f"machines: {machines}", _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(answers, tuple(sources)), equal_energy_table(answers, tuple(sources)))
    return Report(TITLE, notes, tables, {"front.svg": front_svg(answers, tuple(sources))})


def _answer(sources: Mapping[str, tuple[LogSource, str]], experiment: SleepingExperiment) -> SleepingResult:
    return run(experiment, remembered_log(*sources[experiment.log]))


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    log = read_log(LogSource(GENERATED, None))
    for policy in (ALWAYS_ON, FAMILIES[LATE][0], "ols:7d"):
        run(SleepingExperiment(GENERATED, 0, 0, policy), log)


def _nodes_text(machine: PoweredMachine) -> str:
    units = f" of {machine.units_per_node} units" if machine.units_per_node > 1 else ""
    return f"{counted(machine.nodes, 'node')}{units}"


def _replays_note(replays: SleepingReplays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each policy, with submit times 0 to 60 s later: seeds ({replays.seed}, "
        f"0) to ({replays.seed}, {replays.count - 1}); a quarter as many of ols; "
        f"{counted(count, 'experiment')}"
    )
