"""The spread of replays for the terminal: figures of sleep only where nodes can sleep."""

from types import MappingProxyType

from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread
from offpeak.ui.replay.tables import spread_table

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
    assert cells[-2:] == ["83.00 (82.00 to 84.00) %", "0:01:00 (0:00:50 to 0:01:10)"]
