"""Tables of the study: what each policy saves and what jobs wait for it, and what load, spread and length change."""

from collections.abc import Sequence

from studies.price_capacity.answers import Answers
from studies.price_capacity.experiment import ALWAYS_ON, BLIND, FACTORS, FEW_SLAS, TIMEOUT, Setup, profile
from studies.price_capacity.plan import START
from studies.price_capacity.result import Result
from studies.report import Cell, Range, Table

NAMES = {TIMEOUT: "time-out of 10 min", BLIND: "blind cap: half in the dearest 6 h of a day"}
WAITS = ("mean wait [h]", "longer [h]", "longer [%]", "slowdown")
IN_BRACKETS = "In brackets the lowest and the highest of the replays: where they differ in sign it may be chance."


def policies_table(answers: Answers, logs: Sequence[str]) -> Table:
    """Return a row a log and policy at the starting point."""
    return Table(
        "policies",
        "What fewer nodes in dear hours save, and what jobs wait for it",
        "Against nodes that are always on, in the same replays. Jobs: what is saved of the cost of the jobs' energy, "
        "by moving them alone; machine: of the cost of all, sleeping nodes included. Longer: the mean wait. Per 100 h: "
        "what is saved of the machine's cost for 100 hours that jobs wait longer, in the prices' currency. "
        + IN_BRACKETS,
        ("log", "policy", "jobs [%]", "machine [%]", *WAITS, "per 100 h"),
        tuple(_policy_row(answers, log, policy) for log in logs for policy in START.policies),
    )


def _policy_row(answers: Answers, log: str, policy: str) -> tuple[Cell, ...]:
    figures: tuple[Cell, ...] = (
        answers.of(log, START, lambda result: result.of(policy).mean_wait_s / 3600),
        answers.of(log, START, lambda result: result.longer_h(policy)),
        answers.of(log, START, lambda result: result.longer_pct(policy)),
        answers.of(log, START, lambda result: result.of(policy).slowdown),
        answers.saved_per_100_h(log, START, policy),
    )
    return (log, name_of(policy), *saved(answers, log, START, policy), *figures)


def name_of(policy: str) -> str:
    """Return the policy as the tables call it."""
    return NAMES.get(policy, policy)


def saved(answers: Answers, log: str, setup: Setup, policy: str) -> tuple[Range, Range]:
    """Return what a policy saves of the jobs' cost and of the machine's [%]."""

    def of_jobs(result: Result) -> float:
        return result.job_saved_pct(policy)

    def of_machine(result: Result) -> float:
        return result.saved_pct(policy)

    return answers.of(log, setup, of_jobs), answers.of(log, setup, of_machine)


def factors_table(answers: Answers, logs: Sequence[str]) -> Table:
    """Return a row a log and factor, for two SLAs."""
    headers = [header for sla in FEW_SLAS for header in _headers(sla)]
    rows = [(log, "starting point", "", START) for log in logs]
    rows += [(log, factor.name, factor.value, factor.setup) for log in logs for factor in FACTORS]
    return Table(
        "factors",
        "What load, price spread and the length of jobs change",
        "Everything else as in the starting point. What is saved of the jobs' cost and of the machine's, and by how "
        f"many hours jobs wait longer, for an SLA of {FEW_SLAS[0]:g} and one of {FEW_SLAS[1]:g}; the time-out's "
        "saving of the machine's cost beside them. " + IN_BRACKETS,
        ("log", "factor", "", "mean wait [h]", *headers, "time-out: machine [%]"),
        tuple(
            (log, name, value, *_factor_cells(answers, log, setup))
            for log, name, value, setup in sorted(rows, key=lambda row: logs.index(row[0]))
        ),
    )


def _headers(sla: float) -> tuple[str, ...]:
    return f"{sla:g}: jobs [%]", f"{sla:g}: machine [%]", f"{sla:g}: longer [h]"


def _factor_cells(answers: Answers, log: str, setup: Setup) -> tuple[Cell, ...]:
    cells: list[Cell] = [answers.of(log, setup, lambda result: result.of(ALWAYS_ON).mean_wait_s / 3600)]
    for policy in map(profile, FEW_SLAS):
        cells += saved(answers, log, setup, policy)
        cells.append(answers.of(log, setup, lambda result, policy=policy: result.longer_h(policy)))  # type: ignore[misc]
    return (*cells, saved(answers, log, setup, TIMEOUT)[1])
