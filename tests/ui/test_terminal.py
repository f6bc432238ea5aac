"""Tables of texts on terminals that are narrower than they are."""

import pytest

from offpeak.ui.agent.history import HISTORY_KEYS, fold_nodes
from offpeak.ui.terminal import narrow_lines, text_table

WHY = "the job behind it needs all nodes, and waits until the last of them is free again"
HEADERS = ("job", "partition", "energy used", "why")
ROWS = [("1841", "batch", "3.28 kWh", WHY), ("7", "debug", "0.10 kWh", "")]


def table(rows=ROWS):
    return text_table(HEADERS, rows, texts=(0, 1, 3), spare=("partition",))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_line_fits_and_no_word_is_lost(width: int) -> None:
    headers, rows = narrow_lines(table(), width)
    lines = "\n".join([*headers, *rows]).splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split().count("1841") == 1
    assert all(word in " ".join(lines) for word in f"{WHY} 3.28 kWh energy used".split())


def test_spare_columns_are_named_where_they_do_not_fit() -> None:
    _, rows = narrow_lines(table(), 20)
    assert rows[-1] == "- on a wider terminal: partition"
    _, rows = narrow_lines(table(), 80)
    assert "batch" in rows[0]


def test_a_column_without_a_value_is_left_out() -> None:
    headers, _ = narrow_lines(table([(job, "", used, why) for job, _, used, why in ROWS]), 80)
    assert "partition" not in " ".join(headers)


@pytest.mark.parametrize("width", [3, 10])
def test_no_terminal_is_too_narrow(width: int) -> None:
    assert "1841" in narrow_lines(table(), width)[1][0]
    assert narrow_lines(table([]), width)[1] in ([], ["- on a wider terminal: partition"])


def test_nodes_that_did_the_same_share_a_row() -> None:
    rows = [{"at_unix_s": 5, **dict.fromkeys(HISTORY_KEYS, "x"), "subject": name} for name in ("n1", "n2", "job 7")]
    assert [row["subject"] for row in fold_nodes(rows)] == ["n[1-2]", "job 7"]
