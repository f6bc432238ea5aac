"""Logs of a folder, and the error of a folder without any."""

from pathlib import Path

import pytest

from offpeak.errors import BadInput
from offpeak_studies.logs import GENERATED, GENERATED_LOAD, LogSource, find_logs, offered_load, read_log


def test_logs_in_order_of_their_names(folder: Path) -> None:
    logs, left_out = find_logs(folder)
    assert [log.source.name for log in logs] == ["SDSC-BLUE", "small"]
    assert [len(log.trace.jobs) for log in logs] == [120, 40]
    assert left_out == ()


def test_without_a_folder_a_log_is_generated() -> None:
    (log,), left_out = find_logs(None)
    assert (log.source.name, left_out) == (GENERATED, ())
    assert offered_load(log.trace.jobs, log.size) == pytest.approx(GENERATED_LOAD, rel=1e-3)
    assert log.digest == read_log(LogSource(GENERATED, None)).digest


def test_logs_that_cannot_be_used_are_noted(folder: Path) -> None:
    (folder / "empty.swf").write_text("")
    (folder / "unsized.swf").write_text("1 0 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n")
    (folder / "single.swf").write_text("; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n")
    (folder / "README.md").write_text("no log")
    logs, left_out = find_logs(folder)
    assert len(logs) == 2
    assert left_out == (
        f"left out: {folder}/empty.swf: is empty",
        "left out: single: has a single job",
        "left out: unsized: the log does not say how large the machine is",
    )


def test_the_digest_changes_with_a_job(folder: Path) -> None:
    path = folder / "small.swf"
    before = read_log(LogSource("small", path)).digest
    path.write_text(path.read_text().rsplit("\n", 2)[0] + "\n")
    assert read_log(LogSource("small", path)).digest != before


def test_a_folder_without_logs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "log.swf").write_text("")
    for made, message in [
        ("absent", "absent: cannot be read: No such file or directory"),
        ("file", "file: cannot be read: Not a directory"),
        ("empty", "empty: no logs in it"),
        ("bad", "bad: no log in it can be used: left out: .*bad/log.swf: is empty"),
    ]:
        with pytest.raises(BadInput, match=message):
            find_logs(tmp_path / made)
