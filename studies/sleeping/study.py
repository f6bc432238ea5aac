"""The study as a whole: plans the experiments, runs those that are missing, and tells what they come to."""

from collections.abc import Mapping
from functools import partial

from offpeak.text import counted
from sim_backend.powered_replay import PoweredMachine
from studies.dynamic_pricing.logs import GENERATED, Source, find_logs, read_log, remembered_log
from studies.order import Order, Progress
from studies.report import Report
from studies.resumable import Runner, results_of
from studies.sleeping.answers import Answers
from studies.sleeping.experiment import ALWAYS_ON, FAMILIES, LATE, POLICIES, Experiment, Replays, experiments
from studies.sleeping.figure import front_svg
from studies.sleeping.keys import key_of
from studies.sleeping.result import Result, parse_result
from studies.sleeping.run import machine_of, run
from studies.sleeping.tables import equal_energy_table, policies_table

TITLE = "Nodes that sleep: energy, boot delays and power cycles of every rule"
SETUP_NOTE = (
    "setup: EASY with users' estimates; nodes of the class `sketch`: 150 W idle, 10 W off, 60 s down, 180 s up at 200 "
    "W; slowdown is 1 + wait / max(10 s, run)"
)


def sleeping(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    logs, left_out = find_logs(order.logs)
    replays = Replays(order.replays, order.seed)
    sources = {log.source.name: (log.source, log.digest) for log in logs}
    plan = [each for name in sources for policy in POLICIES for each in experiments(name, policy, replays)]
    keys = {each: key_of(each, sources[each.log][1]) for each in plan}
    runner = Runner(partial(_answer, sources), parse_result, _warm_up)
    answers = Answers(results_of(runner, keys, order, progress), replays)
    machines = ", ".join(f"{log.source.name} {_nodes_text(machine_of(log))}" for log in logs)
    notes = (SETUP_NOTE, f"machines: {machines}", _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(answers, tuple(sources)), equal_energy_table(answers, tuple(sources)))
    return Report(TITLE, notes, tables, {"front.svg": front_svg(answers, tuple(sources))})


def _answer(sources: Mapping[str, tuple[Source, str]], experiment: Experiment) -> Result:
    return run(experiment, remembered_log(*sources[experiment.log]))


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    log = read_log(Source(GENERATED, None))
    for policy in (ALWAYS_ON, FAMILIES[LATE][0], "ols:7d"):
        run(Experiment(GENERATED, 0, 0, policy), log)


def _nodes_text(machine: PoweredMachine) -> str:
    units = f" of {machine.units_per_node} units" if machine.units_per_node > 1 else ""
    return f"{counted(machine.nodes, 'node')}{units}"


def _replays_note(replays: Replays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each policy, with submit times 0 to 60 s later: seeds ({replays.seed}, "
        f"0) to ({replays.seed}, {replays.count - 1}); a quarter as many of ols; "
        f"{counted(count, 'experiment')}"
    )
