"""The spread of replays for the terminal: figures of sleep only where nodes can sleep."""

from types import MappingProxyType

from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread
from offpeak.ui.replay.tables import chance_remark, spread_table
from offpeak.ui.terminal import narrow_lines

OF_ALL = {name: ReplicationInterval(2.0, 1.0, 3.0) for name in ("saving_pct", "mean_wait_s", "mean_bounded_slowdown")}
OF_SLEEP = {
    "idle_saved_pct": ReplicationInterval(83.0, 82.0, 84.0),
    "mean_sleep_delay_s": ReplicationInterval(60.0, 50.0, 70.0),
}


def headers_and_last_row(figures: dict[str, ReplicationInterval]) -> tuple[list[str], list[str]]:
    spread = ReplicationSpread("easy", 20, MappingProxyType(figures), MappingProxyType(figures))
    columns = spread_table([spread, spread]).columns
    return [str(column.header) for column in columns], [str(list(column.cells)[-1]) for column in columns]


def test_without_sleep_there_are_three_figures() -> None:
    assert headers_and_last_row(OF_ALL)[0] == ["policy", "saving", "mean wait", "bounded slowdown"]


def test_with_sleep_there_are_two_more() -> None:
    headers, cells = headers_and_last_row(OF_ALL | OF_SLEEP)
    assert headers[-2:] == ["idle energy saved", "mean delay"]
    assert cells[-2:] == ["83.00 (82.00 to 84.00) %", "60 s (50 s to 70 s)"]


def test_eighty_columns_hold_the_ranges_of_a_policy_with_sleep() -> None:
    figures = MappingProxyType(OF_ALL | OF_SLEEP | {"mean_wait_s": ReplicationInterval(27_840, 26_700, 29_160)})
    spread = ReplicationSpread("greedy timeout:10min", 20, figures, figures)
    headers, lines = narrow_lines(spread_table([spread, spread]), 80)
    assert max(map(len, [*headers, *lines])) <= 80
    assert lines[0].endswith("7:44 h (7:25 h to 8:06 h)")
    assert lines[-1] == "- on a wider terminal: idle energy saved, mean delay, bounded slowdown"


def test_differences_that_chance_can_make_are_named_by_policy() -> None:
    either = MappingProxyType(OF_ALL | {"mean_wait_s": ReplicationInterval(1.0, -2.0, 3.0)})
    spreads = [ReplicationSpread(name, 20, MappingProxyType(OF_ALL), either) for name in ("easy", "greedy")]
    assert chance_remark(spreads) == [
        "not significant, as the difference from easy may be due to chance: greedy: mean wait"
    ]
    assert chance_remark(spreads[:1]) == []
