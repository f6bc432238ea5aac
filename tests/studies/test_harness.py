"""The harness: results that outlive an interrupt."""

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput, CannotWrite
from offpeak_studies.harness import ResultJournal

RESULTS = st.dictionaries(st.text(min_size=1, max_size=5), st.dictionaries(st.text(), st.floats(allow_nan=False)))


@given(RESULTS)
def test_added_result_is_read_back(tmp_path_factory: pytest.TempPathFactory, results: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("journal") / "results.jsonl"
    with ResultJournal(path) as journal:
        assert journal.known == {}
        for key, result in results.items():
            journal.add(key, {"policy": "greedy"}, {"result": result})
    with ResultJournal(path) as journal:
        assert journal.known == {key: {"result": result} for key, result in results.items()}


def test_a_line_that_was_cut_short_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultJournal(path) as journal:
        journal.add("a", {}, {"wait_s": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:17])
    with ResultJournal(path) as journal:
        assert set(journal.known) == {"a"}
        journal.add("b", {}, {"wait_s": 2})
    with ResultJournal(path) as journal:
        assert set(journal.known) == {"a", "b"}
    assert path.read_bytes().startswith(whole)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    for line in ["nonsense", "[1, 2]", '{"key": "b"}', "7"]:
        path = tmp_path / "results.jsonl"
        path.write_text('{"key": "a", "of": {}, "result": {}}\n' + line + "\n")
        with pytest.raises(BadInput, match=r"results.jsonl:2: is no result of a study") as caught:
            ResultJournal(path)
        assert "delete that line" in caught.value.hint


def test_a_journal_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"absent/results.jsonl: cannot be written: No such file"):
        ResultJournal(tmp_path / "absent" / "results.jsonl")
    with pytest.raises(CannotWrite, match=r"/dev/null: cannot be written"):
        ResultJournal(Path("/dev/null"))


def test_two_studies_do_not_write_to_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultJournal(path), pytest.raises(CannotWrite, match=r"results.jsonl: another study writes to it"):
        ResultJournal(path)
    with ResultJournal(path) as journal:
        assert journal.known == {}


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ResultJournal(tmp_path / "results.jsonl") as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            with pytest.raises(CannotWrite, match=r"results.jsonl: cannot be written: File too large"):
                journal.add("a", {}, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_results_are_arranged_behind_those_of_other_studies(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultJournal(path) as journal:
        for key in ("c", "other", "a"):
            journal.add(key, {}, {})
        journal.arrange("ac")
    with ResultJournal(path) as journal:
        assert list(journal.known) == ["other", "a", "c"]
        journal.add("b", {}, {})
        journal.arrange("abc")
    assert [line.split('"')[3] for line in path.read_text().splitlines()] == ["other", "a", "b", "c"]
