"""Tables by class of jobs and by system: Tables 6 and 8, and what Figures 5 and 8 draw."""

from studies.day_ahead.answers import Answers
from studies.day_ahead.experiment import Case
from studies.day_ahead.figures_of import POWERS
from studies.day_ahead.paper import SIZE_EDGES_CORE_H, TABLE_6, TABLE_8
from studies.day_ahead.plan import BASELINE, INST, START, TWO_PRICE
from studies.report import Cell, Table, confidence_of

HALF = Case("mcmf", brokered_pct=50)
SIZES = (
    f"small, below {SIZE_EDGES_CORE_H[0]:,} core-hours",
    "medium",
    f"large, from {SIZE_EDGES_CORE_H[1]:,} core-hours on",
)


def estimates_table(answers: Answers) -> Table:
    """Return Table 6 beside ours."""
    return Table(
        "estimates",
        "Table 6: by how wrong the users' run times are",
        "Per cent that the mean response is shorter under MCMF with w_t = 25 %, by estimate over run time less one.",
        ("error [%]", "jobs", "than baseline", "paper", "than INST", "paper", "than TWOPRICE", "paper"),
        tuple(_estimates_row(answers, number, label) for number, label in enumerate(TABLE_6)),
    )


def _estimates_row(answers: Answers, number: int, label: str) -> tuple[Cell, ...]:
    cells: list[Cell] = [label, answers.of(START, lambda result: result.by_error_jobs[number]).mean]
    for than, theirs in zip((BASELINE, INST, TWO_PRICE), TABLE_6[label], strict=True):
        cells += [answers.less_pct(START, than, lambda result: result.by_error_min[number]), theirs]
    return tuple(cells)


def powers_table(answers: Answers) -> Table:
    """Return Table 8 beside ours: nobody knows what a single job draws, so only the bill changes."""
    return Table(
        "powers",
        "Table 8: what jobs draw",
        "Cost in USD if each job draws 60 to 100 %, 60 to 140 % or 100 to 140 % of Linpack's power. The broker counts "
        "on Linpack's, so responses are those of Table 4.",
        ("power", *(head for name in ("baseline", "INST", "TWOPRICE", "MCMF") for head in (name, "paper"))),
        tuple(_power_row(answers, number, label) for number, label in enumerate(each.name for each in POWERS)),
    )


def _power_row(answers: Answers, number: int, label: str) -> tuple[Cell, ...]:
    cells: list[Cell] = [label]
    for case, theirs in zip((BASELINE, INST, TWO_PRICE, START), TABLE_8[label], strict=True):
        cells += [answers.of(case, lambda result: result.cost_by_power[number]), theirs]
    return tuple(cells)


def sizes_table(answers: Answers) -> Table:
    """Return what Figure 5 draws."""
    return Table(
        "sizes",
        "Figure 5: by the jobs' size",
        "What MCMF with w_t = 25 % saves of a job on average: minutes of response, and USD.",
        ("jobs", "number", "response shorter by", "cheaper by"),
        tuple(_size_row(answers, number, label) for number, label in enumerate(SIZES)),
    )


def _size_row(answers: Answers, number: int, label: str) -> tuple[Cell, ...]:
    pairs = list(zip(answers.each(BASELINE), answers.each(START), strict=False))
    count = [one.by_size_jobs[number] for one, _ in pairs]
    minutes = [(one.by_size_min[number] - other.by_size_min[number]) / one.by_size_jobs[number] for one, other in pairs]
    usd = [(one.by_size_usd[number] - other.by_size_usd[number]) / one.by_size_jobs[number] for one, other in pairs]
    return label, sum(count) / len(count), confidence_of(minutes), confidence_of(usd)


def sites_table(answers: Answers) -> Table:
    """Return by system what Figure 8 draws, and where jobs ran."""
    answers = answers.shared((START, HALF, BASELINE))
    columns = (
        answers.mean_by(START, lambda result: result.fairness),
        answers.mean_by(HALF, lambda result: result.fairness),
        answers.mean_by(HALF, lambda result: result.fairness_local),
        answers.mean_by(BASELINE, lambda result: result.jobs),
        answers.mean_by(START, lambda result: result.jobs),
        [_percent(each) for each in answers.mean_by(BASELINE, lambda result: result.utilization)],
        [_percent(each) for each in answers.mean_by(START, lambda result: result.utilization)],
    )
    return Table(
        "sites",
        "Figure 8: whom it serves, and where jobs run",
        "Fairness: the geometric mean of baseline response over response of the jobs submitted at a system, if all "
        "jobs go to the broker, and if half of them do. "
        "Utilization in per cent, from the first counted job to the last end.",
        (
            "system",
            "all brokered",
            "half: brokered",
            "half: local",
            "jobs at home",
            "jobs under MCMF",
            "utilization at home",
            "under MCMF",
        ),
        tuple((name, *cells) for name, *cells in zip(answers.sites, *columns, strict=True)),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
