"""The study's tables: the paper's beside ours."""

from collections.abc import Mapping

from studies.day_ahead.answers import Answers
from studies.day_ahead.experiment import Case
from studies.day_ahead.paper import TABLE_4, TABLE_5, TABLE_7, Row
from studies.day_ahead.plan import (
    BROKERED_PCT,
    CYCLES,
    EACH_MINUTE,
    INFORMED,
    MOST,
    START,
    STRATEGIES,
    WEIGHTS_PCT,
    WITH_DATA,
    WRONG_H,
)
from studies.day_ahead.result import Result
from studies.report import Cell, Range, Table

RANGES = "In brackets the 95 % confidence interval of the mean over the replays."
HEADERS = ("response", "paper", "shorter", "paper", "cost", "paper", "cheaper", "paper")


def response(result: Result) -> float:
    """Return the mean response [min]."""
    return result.response_min


def cost(result: Result) -> float:
    """Return the cost of all jobs [USD]."""
    return result.cost_usd


def strategies_table(answers: Answers) -> Table:
    """Return Table 4 beside ours."""
    return _beside(answers, STRATEGIES, TABLE_4, "strategies", "Table 4: strategies on XSEDE")


def data_table(answers: Answers) -> Table:
    """Return Table 7 beside ours."""
    return _beside(answers, WITH_DATA, TABLE_7, "data", "Table 7: jobs whose data has to move")


def _beside(
    answers: Answers, cases: Mapping[str, Case], paper: Mapping[tuple[str, float], Row], name: str, title: str
) -> Table:
    return Table(
        name,
        title,
        "Mean response in minutes, cost of all jobs in USD; shorter and cheaper: per cent below the baseline of the "
        f"same table. {RANGES}",
        ("strategy", *HEADERS),
        tuple((label, *_row(answers, case, cases["baseline"], paper)) for label, case in cases.items()),
    )


def _row(answers: Answers, case: Case, home: Case, paper: Mapping[tuple[str, float], Row]) -> tuple[Cell, ...]:
    theirs, base = paper[case.strategy, case.time_pct], paper["baseline", 25.0]
    return (
        answers.of(case, response),
        theirs.response_min,
        answers.less_pct(case, home, response),
        100 * (1 - theirs.response_min / base.response_min),
        answers.of(case, cost),
        theirs.cost_usd,
        answers.less_pct(case, home, cost),
        100 * (1 - theirs.cost_usd / base.cost_usd),
    )


def weights_table(answers: Answers) -> Table:
    """Return response and cost by w_t."""
    labelled = {f"{each:g} %": Case("mcmf", each) for each in WEIGHTS_PCT}
    return _changed(answers, labelled, "weights", "Figures 4 and 9: MCMF by the weight of time", "w_t")


def most_table(answers: Answers) -> Table:
    """Return response and slowdown by MaxQ, and with jobs that know of each other."""
    labelled = {"any number" if each is None else str(each): Case("mcmf", most=each) for each in MOST}
    labelled["any number, jobs of a cycle know of each other"] = INFORMED
    labelled["2, a cycle each minute"] = EACH_MINUTE
    return _changed(answers, labelled, "most", "Figure 11: MCMF by the jobs that a system takes in a cycle", "MaxQ")


def cycles_table(answers: Answers) -> Table:
    """Return response and cost where MaxQ and the cycle hold jobs back less."""
    labelled = {"INST": STRATEGIES["INST"], **CYCLES}
    return _changed(answers, labelled, "cycles", "Table 4 with more jobs a cycle, and more cycles", "strategy")


def shares_table(answers: Answers) -> Table:
    """Return response and cost by f_g."""
    labelled = {f"{each} %": Case("mcmf", brokered_pct=each) for each in BROKERED_PCT}
    return _changed(answers, labelled, "shares", "Figure 10: MCMF by the share of jobs that go to the broker", "f_g")


def _changed(answers: Answers, cases: Mapping[str, Case], name: str, title: str, what: str) -> Table:
    answers = answers.shared(cases.values())
    return Table(
        name,
        title,
        f"Minutes and USD; shorter and cheaper: per cent below the baseline. Bounded slowdown: a mean. {RANGES}",
        (what, "response", "shorter", "cost", "cheaper", "bounded slowdown"),
        tuple(
            (
                label,
                answers.of(case, response),
                answers.saved_pct(case, response),
                answers.of(case, cost),
                answers.saved_pct(case, cost),
                answers.of(case, lambda result: result.bounded_slowdown),
            )
            for label, case in cases.items()
        ),
    )


def errors_table(answers: Answers) -> Table:
    """Return Table 5 beside ours."""
    answers = answers.shared(Case("mcmf", wrong_h=hours) for hours in WRONG_H)
    return Table(
        "errors",
        "Table 5: MCMF with waits known less well",
        "To each predicted wait up to so many hours are added, drawn anew each time. Longer and dearer: per cent above "
        f"no perturbation. Error: of the waits told, a mean in minutes. {RANGES}",
        ("up to", "error", "response", "longer", "paper", "cost", "dearer", "paper"),
        tuple(_error_row(answers, hours) for hours in WRONG_H),
    )


def _error_row(answers: Answers, hours: float) -> tuple[Cell, ...]:
    case, theirs, base = Case("mcmf", wrong_h=hours), TABLE_5[hours], TABLE_5[0.0]
    return (
        f"{hours:g} h",
        answers.of(case, lambda result: result.wait_error_min),
        answers.of(case, response),
        _negated(answers.less_pct(case, START, response)),
        100 * (theirs.response_min / base.response_min - 1),
        answers.of(case, cost),
        _negated(answers.less_pct(case, START, cost)),
        100 * (theirs.cost_usd / base.cost_usd - 1),
    )


def _negated(less: Range) -> Range:
    return Range(-less.mean, -less.high, -less.low)
