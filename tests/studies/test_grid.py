"""A grid of a user's own: what its file may say, and the same rows wherever it ran."""

from pathlib import Path

import pytest
from pyarrow import parquet

from offpeak.errors import BadInput
from offpeak.sim_backend.sample import SAMPLE_PRICES
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak.ui.command import run
from offpeak_studies.grid import read_grid
from offpeak_studies.harness import JOURNAL
from offpeak_studies.workloads.generate import lublin_jobs

GRID = """
[grid]
log = "{folder}/small.swf"
years = [2023]
weeks = [3, 29]
node_classes = ["server", "sketch"]

[prices]
file = "{folder}/{{year}}_eur_per_mwh.csv.gz"

[scheduling]
policies = ["easy", "greedy"]

[capacity]
policies = ["always-on", "timeout:10min"]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    jobs = lublin_jobs(60, machine_size=16, seed=1, load=0.75)
    write_swf(jobs, tmp_path / "small.swf", processors=16, unix_start_s=1_704_063_600, zone="Europe/Berlin", notes=())
    (tmp_path / "2023_eur_per_mwh.csv.gz").symlink_to(SAMPLE_PRICES)
    file = tmp_path / "grid.toml"
    file.write_text(GRID.format(folder=tmp_path))
    return file


def sweep(grid: Path, *options: str) -> int:
    return run(["study", str(grid), "--replays", "2", *options])


def test_a_grid_has_a_row_for_each_policy_in_each_replay(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sweep(grid, "--out", str(out), "--processes", "1") == 0
    rows = parquet.read_table(out / "grid.parquet").to_pylist()
    policies = ["easy", "greedy", "easy timeout:10min", "greedy timeout:10min"]
    assert [(row["week"], row["node_class"], row["replay"], row["policy"]) for row in rows] == [
        (week, name, replay, policy)
        for week in (3, 29)
        for name in ("server", "sketch")
        for replay in (0, 1)
        for policy in policies
    ]
    assert all(row["saving_pct"] == 0 and row["asleep_share"] == 0 for row in rows[::4])
    assert all(row["asleep_share"] > 0 for row in rows[2::4])
    assert rows[0]["cost"] != rows[16]["cost"]
    assert rows[0]["mean_wait_s"] == rows[16]["mean_wait_s"]
    page = (out / "study.html").read_text()
    assert "timeout:10min" in page
    assert "://" not in page
    again = tmp_path / "again"
    again.mkdir()
    (again / JOURNAL).write_text("".join((out / JOURNAL).read_text().splitlines(keepends=True)[3:]))
    assert sweep(grid, "--out", str(again), "--processes", "2") == 0
    for name in (JOURNAL, "grid.parquet", "study.html", "study.md"):
        assert (again / name).read_bytes() == (out / name).read_bytes()


def test_a_file_that_means_no_grid(grid: Path) -> None:
    text = grid.read_text()
    for was, now, message in [
        ("[grid]", "[sweep]", r"grid.toml:\d+: \[sweep\] is not a section"),
        ("weeks = [3, 29]", "weeks = [60]", r"grid.toml: \[grid\] weeks: Invalid week: 60"),
        ("weeks = [3, 29]", "", r"grid.toml: \[grid\] weeks: Field required"),
        ("weeks = [3, 29]", "weeks = []", r"grid.toml: \[grid\] weeks: .* at least 1 item"),
        ("weeks =", "days = [1]\nweeks =", r"grid.toml: \[grid\] days: Unexpected keyword argument"),
        ('["easy", "greedy"]', "7", r"grid.toml:\d+: scheduling.policies"),
    ]:
        grid.write_text(text.replace(was, now))
        with pytest.raises(BadInput, match=message):
            read_grid(grid)


def test_what_a_grid_needs_is_named(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = grid.read_text()
    for change, options, message in [
        (("[2023]", "[2022]"), (), "2022_eur_per_mwh.csv.gz: no such file"),
        (("small.swf", "absent.swf"), (), "absent.swf"),
        (("server", "servers"), (), "servers"),
        (("server", "server"), ("--prices", "p.csv"), "has prices of its own"),
    ]:
        grid.write_text(text.replace(*change))
        assert sweep(grid, "--out", str(grid.parent / "out"), *options) == 2
        assert message in capsys.readouterr().err
    grid.write_text(text.replace("{year}_eur", "2023_eur").replace("[2023]", "[2023, 2031]"))
    assert sweep(grid, "--out", str(grid.parent / "out")) == 2
    assert "the start 2031-01-13 lies outside the prices" in capsys.readouterr().err
