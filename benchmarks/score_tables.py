"""The pages' tables of scores of run times and waits: `python -m benchmarks.score_tables LOGS [NAME ...]`.

LOGS is the folder of the logs, a NAME the log's name in the tables; without one all logs are scored, which takes two
hours of one processor. The rows of logs that are not named stay as they are. "bundled sample" scores run times and
power of the bundled sample. The scores are those of `offpeak forecast score`, and that of the predictor which the agent
chooses; `make reference` puts the tables on the pages.
"""

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from offpeak.predictors.run_times import LastTwo, UserEstimate, chosen_run_time, similar_run_times
from offpeak.predictors.scores import compute_score, take_exam
from offpeak.sim_backend.sample import SAMPLE_LOG
from offpeak.ui.forecast.log_scores import (
    POWER,
    RUN_TIME,
    WAIT,
    LogResult,
    LogTask,
    read_log_file,
    run_log_task,
    run_times_of,
)

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
LOGS = {
    "SDSC-SP2, first 5,000": "SDSC-SP2_first5000",
    "ANL-Intrepid": "ANL-Intrepid_first10000",
    "Theta 2022": "theta_2022",
    "KTH-SP2-1996": "KTH-SP2-1996-2.1-cln",
    "KTH-SP2": "KTH-SP2",
    "SDSC-SP2": "SDSC-SP2",
    "CTC-SP2": "CTC-SP2",
    "SDSC-BLUE": "SDSC-BLUE",
    "CEA-curie": "CEA-curie",
    "LCG-2005": "LCG-2005",
    "LLNL-Atlas": "LLNL-Atlas-2006-2.1-cln",
    "KTH, common": "KTH_common",
    "SDSC-SP2, 5K common": "SDSC-SP2-5K_common",
    "Lublin 99": "lublin99_ref_1000jobs",
    "Lublin 99, Tsafrir 05": "lublin99_tsafrir05_1000jobs",
    "Lublin, 256": "lublin_256",
}
"""The files of the logs by their names in the tables."""
SAMPLE = "bundled sample"
RUN_TIMES = ("estimate", "last two", "boosted")
WAITS = ("nobody waits", "similar jobs", "boosted", "what-if", "arbiter")
POWERS = ("constant", "history", "boosted")
Scores = Mapping[str, LogResult]
"""By predictor."""


def scores_of(file: Path, quantity: str, predictors: tuple[str, ...]) -> Scores:
    """Return the scores of the predictors of a quantity on a log."""
    return {name: run_log_task(LogTask(file, quantity, name)) for name in predictors}


def rounded(value: float) -> str:
    """Return a figure without decimals, below 10 with one."""
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def jobs_row(log: str, scores: Scores) -> list[str]:
    """Return the row of a log in the table of run times."""
    base, last, trees = (scores[name].score for name in RUN_TIMES)
    relative = last.mae / base.mae, trees.mae / base.mae, trees.rmse / base.rmse
    return [
        log,
        f"{base.count:,}",
        *(rounded(each.mae) for each in (base, last, trees)),
        *(f"{each:.2f}" for each in relative),
        f"{100 * trees.coverage:.0f}",
        rounded(scores["boosted"].cpu_s),
    ]


def waits_rows(log: str, scores: Scores) -> dict[str, list[str]]:
    """Return the rows of a log by table."""
    found = [scores[name].score for name in WAITS]
    _, published, _, _, arbiter = (score.mae for score in found)
    best = min(score.mae for score in found[1:4])
    ratios = [f"{arbiter / published:.2f}", f"{arbiter / best:.2f}"] if best else ["", ""]
    begin = [log, f"{found[0].count:,}"]
    within = f"{100 * found[-1].coverage:.0f}"
    return {
        "waits/scores": [*begin, *(rounded(score.mae) for score in found), *ratios, within],
        "waits/intervals": [*begin, *(f"{100 * score.close_share:.1f}" for score in found)],
        "waits/seconds": [*begin, *(rounded(scores[name].cpu_s) for name in WAITS)],
    }


def choice_row(log: str, file: Path) -> list[str]:
    """Return the row of a log in the table of the agent's choice."""
    exam = run_times_of(read_log_file(file))
    naive = take_exam(UserEstimate(), exam)
    candidates = (LastTwo(), similar_run_times(), chosen_run_time())
    found = [
        compute_score(exam.actual, each, naive=naive) for each in (naive, *(take_exam(one, exam) for one in candidates))
    ]
    return [log, *(rounded(score.mae) for score in found), f"{found[-1].relative_mae:.2f}"]


def power_row(predictor: str, result: LogResult) -> list[str]:
    """Return the row of a predictor of power on the bundled sample."""
    score = result.score
    return [
        predictor,
        f"{score.mae:.1f}",
        f"{score.rmse:.1f}",
        f"{score.percentage_error:.0f}",
        f"{fmean(score.pinball):.1f}",
        f"{100 * score.coverage:.0f}",
        f"{result.cpu_s:.1f}",
    ]


def replace_row(table: str, row: list[str]) -> None:
    """Put the row in place of that of the same log."""
    path = FIGURES / f"{table}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row if before[0] == row[0] else before for before in csv.reader(file)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def score(folder: Path, log: str) -> None:
    """Score a log and replace its rows in the tables that have it."""
    file = SAMPLE_LOG if log == SAMPLE else folder / f"{LOGS[log]}.swf.gz"
    replace_row("jobs/choice", choice_row(log, file))
    if log == SAMPLE:
        for predictor, result in scores_of(file, POWER, POWERS).items():
            replace_row("jobs/power", power_row(predictor, result))
        return
    replace_row("jobs/scores", jobs_row(log, scores_of(file, RUN_TIME, RUN_TIMES)))
    for table, row in waits_rows(log, scores_of(file, WAIT, WAITS)).items():
        replace_row(table, row)


if __name__ == "__main__":
    for named in sys.argv[2:] or (SAMPLE, *LOGS):
        score(Path(sys.argv[1]), named)
        print(named, flush=True)
