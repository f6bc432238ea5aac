"""`offpeak forecast score` as a researcher meets it."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path("sim_backend/sample").resolve()


def beginning_of(name: str, lines: int, path: Path) -> Path:
    with gzip.open(SAMPLES / name, "rt") as whole:
        path.write_text("".join(line for line, _ in zip(whole, range(lines), strict=False)))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Eight days of prices, of which one is scored, and some hundred jobs, in a folder and one inside it."""
    top = tmp_path_factory.mktemp("data")
    (top / "logs").mkdir()
    beginning_of("sample_prices_eur_per_mwh.csv.gz", 8 * 24 + 2, top / "few_eur_per_mwh.csv")
    beginning_of("sample_sacct.txt.gz", 250, top / "logs" / "sacct.txt")
    (top / "readme.md").write_text("neither prices nor jobs")
    (top / "notes.txt").write_text("a log would have numbers here\n")
    return top


@pytest.fixture(scope="module")
def document(folder, zygote) -> dict[str, Any]:
    """What two processes say of the folder."""
    arguments = ("forecast", "score", folder, "--json", "--processes", "2")
    return json.loads(subprocess.run([zygote.command, *arguments], stdout=subprocess.PIPE, check=True).stdout)


def test_all_files_of_a_folder_are_scored(document) -> None:
    assert [note.rpartition("/")[2].split(":")[0] for note in document["notes"]] == ["notes.txt"]
    assert {row["file"] for row in document["price-scores"]} == {"few_eur_per_mwh.csv"}
    assert {row["log"] for row in document["waits"]} == {"sacct"}
    rows = {row["predictor"]: row for row in document["run-times"]}
    assert list(rows) == ["estimate", "last two", "similar jobs", "boosted"]
    assert rows["estimate"]["rel. MAE"] == 1
    assert rows["last two"]["MAE [s]"] < rows["estimate"]["MAE [s]"]


def test_one_process_or_two_give_the_same(offpeak, folder, document) -> None:
    alone = json.loads(offpeak("forecast", "score", folder / "logs", "--json", "--processes", "1").stdout)
    for table in ("run-times", "power", "waits"):
        one, two = ([dict(row) | {"CPU [s]": None} for row in each[table]] for each in (alone, document))
        assert one == two


def test_the_tables_are_printed(offpeak, folder) -> None:
    done = offpeak("forecast", "score", folder / "logs", "--processes", "1")
    lines = done.stdout.splitlines()
    assert lines[0] == "Predictors side by side, each answer given before its outcome was known"
    assert [line.split()[1] for line in lines if line.startswith("sacct  ")][:4] == [
        "estimate",
        "last",
        "similar",
        "boosted",
    ]
    results = done.stderr.splitlines()
    assert re.fullmatch(r"sacct, run time, estimate: MAE [\d,]+ s \(1 of 12, about .* left\)", results[0])
    assert re.fullmatch(r"sacct, wait, arbiter: MAE [\d,]+ s \(12 of 12\)", results[-1])
    assert len(results) == 12


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("no.csv", "no.csv: no such file", "ls"),
        ("no.swf", "no.swf: no such file", "ls"),
        ("empty", "empty: holds neither price files nor job logs", "name .csv, .swf or accounting files"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(offpeak, tmp_path, name, message, hint) -> None:
    (tmp_path / "empty").mkdir()
    done = offpeak("forecast", "score", tmp_path / name)
    assert done.returncode == 2
    assert message in done.stderr
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 2
