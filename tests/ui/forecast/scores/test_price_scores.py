"""The tables of price scores: the same from results in any order, and nothing where nothing was measured."""

from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.scores import Score
from offpeak.report_tables import cell_text
from offpeak.ui.forecast.price_scores import OURS, PriceResult, price_tables

SCORE = Score(24, 6.4, 10.0, 140.0, (1.0, 3.0, 1.5), 0.8, 1.0, 0.561)
results = st.builds(
    PriceResult,
    file=st.sampled_from(["a.csv", "b.csv"]),
    unit=st.sampled_from(["", "EUR/MWh"]),
    clock=st.just("UTC"),
    learned_days=st.just(7),
    predictor=st.sampled_from([*OURS, "published theirs"]),
    score=st.builds(
        Score,
        pinball=st.tuples(*[st.floats(0, 9)] * 3),
        percentage_error=st.one_of(st.floats(0, 9), st.just(float("nan"))),
    ),
    days=st.floats(1, 400),
    cpu_s=st.one_of(st.none(), st.floats(0, 9)),
)


@given(st.lists(results, max_size=6, unique_by=lambda result: (result.file, result.predictor)), st.randoms())
def test_tables_do_not_depend_on_which_came_first(results, random):
    mixed = random.sample(results, len(results))
    tables = price_tables(results)
    assert tables == price_tables(mixed)
    scores, _ = tables
    assert len(scores.rows) == len(results)
    for row in scores.rows:
        assert len(row) == len(scores.headers)
        assert "nan" not in map(cell_text, row)


def test_rows_stand_by_file_and_from_the_simplest_to_the_published():
    names = [*OURS, "published a", "published b"]
    scored = [PriceResult(file, "", "UTC", 7, name, SCORE) for name in reversed(names) for file in ("b.csv", "a.csv")]
    scores, files = price_tables(scored)
    assert [row[:2] for row in scores.rows] == [(file, name) for file in ("a.csv", "b.csv") for name in names]
    assert files.rows == (("a.csv", "unknown", "UTC", "7"), ("b.csv", "unknown", "UTC", "7"))
    assert [row[6:] for row in scores.rows[:1]] == [("0.561", None, None, None, None)]
