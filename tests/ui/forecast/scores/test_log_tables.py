"""The tables: which measures stand where, and what they are relative to."""

from pathlib import Path

from offpeak.predictors.scores import Score
from offpeak.report_tables import cell_text
from offpeak.ui.forecast.log_scores import POWER, RUN_TIME, WAIT, LogResult, LogTask, log_tables

NAN = float("nan")


def result(quantity, predictor, mae, *, log="a", notes=()):
    score = Score(1200, mae, 2 * mae, 50.0, (1.0, 2.0, 6.0), 0.75, 0.9, NAN)
    return LogResult(LogTask(Path(f"{log}.swf"), quantity, predictor), log, score, 1.5, notes)


def test_waits_are_relative_to_the_published_method_of_the_same_log():
    (table,) = log_tables(
        [
            result(WAIT, "arbiter", 50.0, notes=("starts are of a replay",)),
            result(WAIT, "similar jobs", 100.0),
            result(WAIT, "similar jobs", 200.0, log="b"),
        ]
    )
    assert table.name == "waits"
    assert table.headers == (
        "log", "predictor", "jobs", "MAE [s]", "RMSE [s]", "rel. MAE", "pinball [s]", "within 80 % [%]",
        "within 1 h [%]", "CPU [s]",
    )  # fmt: skip
    assert [cell_text(cell) for cell in table.rows[0]] == [
        "a", "arbiter", "1,200", "50.00", "100.00", "0.50", "3.00", "75.00", "90.00", "1.50",
    ]  # fmt: skip
    assert [row[5] for row in table.rows] == [0.5, 1.0, 1.0]
    assert table.note.endswith("a: starts are of a replay.")


def test_run_times_and_power_have_a_percentage_error():
    for quantity, naive, unit in [(RUN_TIME, "estimate", "s"), (POWER, "constant", "W")]:
        (table,) = log_tables([result(quantity, naive, 10.0), result(quantity, "boosted", 4.0)])
        assert table.headers[3] == f"MAE [{unit}]"
        assert table.headers[8] == "error [%]"
        assert [row[5] for row in table.rows] == [1.0, 0.4]
        assert [row[8] for row in table.rows] == [50.0, 50.0]


def test_a_table_for_each_quantity_that_was_scored():
    results = [result(WAIT, "similar jobs", 1.0), result(RUN_TIME, "estimate", 1.0)]
    assert [table.name for table in log_tables(results)] == ["run-times", "waits"]
    assert log_tables([]) == ()
    (table,) = log_tables([result(WAIT, "similar jobs", 0.0), result(WAIT, "arbiter", NAN)])
    assert [row[5] for row in table.rows] == [None, None]
    assert table.rows[1][3] is None
