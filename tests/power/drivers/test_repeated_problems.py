"""A problem is reported when it begins, seldom while it lasts, and when it ends."""

from hypothesis import given
from hypothesis import strategies as st

from offpeak.power.drivers.poll import ReportedProblem, limit_repeats


def lines_of(problems: list[tuple[float, str | None]]) -> list[tuple[float, str]]:
    reply: ReportedProblem | None = None
    lines = []
    for at_unix_s, error in problems:
        reply, line = limit_repeats(reply, error, at_unix_s=at_unix_s)
        if line is not None:
            lines.append((at_unix_s, line))
    return lines


def test_a_week_of_silence_is_a_few_lines() -> None:
    lines = lines_of([(float(second), "no answer") for second in range(0, 604_800, 10)])
    assert lines[0] == (0.0, "no answer")
    assert lines[1] == (60.0, "no answer (7 times in 60 s)")
    assert lines[2] == (180.0, "no answer (19 times in 180 s)")
    assert 10 < len(lines) < 25


def test_another_problem_is_reported_at_once_and_its_end_too() -> None:
    problems: list[tuple[float, str | None]] = [(0, "a"), (1, "b"), (2, "b"), (3, None), (4, None), (5, "b")]
    assert lines_of(problems) == [(0, "a"), (1, "b"), (3, "well again after 2 times in 2 s: b"), (5, "b")]


def test_no_line_is_logged_without_a_problem() -> None:
    assert lines_of([(0, None), (1, None)]) == []


@given(st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from([None, "a", "b"]))))
def test_each_change_is_a_line(problems: list[tuple[float, str | None]]) -> None:
    in_time = sorted(problems, key=lambda problem: problem[0])
    changes = [
        error for before, (_, error) in zip([None, *(t for _, t in in_time)], in_time, strict=False) if before != error
    ]
    assert len(lines_of(in_time)) >= len(changes)
