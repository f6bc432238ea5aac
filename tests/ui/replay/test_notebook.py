"""`import offpeak` in Python and notebooks: the figures of the command, and errors that name the way out."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jedi
import numpy as np
import pandas
import pyarrow as pa
import pytest

import offpeak
from offpeak.errors import BadInput
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES, SAMPLE_SACCT

Offpeak = Callable[..., subprocess.CompletedProcess[str]]
JOB = "{job} {submit} 0 {run} 4 -1 -1 4 7200 -1 1 1 -1 -1 -1 -1 -1 -1"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    jobs = [JOB.format(job=1 + job, submit=600 * job, run=1800 + 60 * job) for job in range(40)]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 8", *jobs, ""]), encoding="utf-8")
    return tmp_path / "log.swf"


@pytest.fixture
def offpeak_command(request: pytest.FixtureRequest) -> Offpeak:
    """The fixture `offpeak` under a name that leaves the module its own."""
    command: Offpeak = request.getfixturevalue("offpeak")
    return command


def without_times(policies: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in policy.items() if key != "simulate_s"} for policy in policies]


@pytest.mark.parametrize(
    ("source", "load", "price", "replay"),
    [
        (SAMPLE_LOG, {}, {"prices": SAMPLE_PRICES, "carbon": "400g/kWh"}, {"policy": ["easy", "greedy"]}),
        (SAMPLE_LOG, {"nodes": 140}, {"node_class": "server"}, {"policy": "easy", "capacity": "always-on,priced"}),
        (
            SAMPLE_LOG,
            {"nodes": 140},
            {"prices": SAMPLE_PRICES, "node_class": "server"},
            {"policy": ["easy", "knapsack"], "capacity": ["always-on", "timeout:10min"]},
        ),
    ],
    ids=["order", "sleep", "order and sleep"],
)
def test_figures_are_those_of_the_command(
    offpeak_command: Offpeak, source: Path, load: dict[str, object], price: dict[str, object], replay: dict[str, object]
) -> None:
    options = [
        part
        for key, value in (load | price | replay).items()
        for part in (f"--{key.replace('_', '-')}", ",".join(value) if isinstance(value, list) else str(value))
    ]
    done = offpeak_command("simulate", source, *options, "--json")
    assert done.returncode == 0, done.stderr
    replayed = offpeak.replay(offpeak.price(offpeak.load(source, **load), **price), **replay)
    policies = json.loads(json.dumps(offpeak.compare(replayed)))
    assert without_times(policies) == without_times(json.loads(done.stdout)["policies"])


def test_a_log_without_prices_of_its_own_gets_those_of_the_settings(log: Path) -> None:
    loaded = offpeak.load(log)
    replayed = offpeak.replay(loaded, policy="easy,greedy")
    priced = offpeak.replay(offpeak.price(loaded), policy=["easy", "greedy"])
    assert without_times(offpeak.compare(replayed)) == without_times(offpeak.compare(priced))
    assert repr(loaded) == "log: 40 jobs"
    assert "assumed" in repr(offpeak.price(loaded))
    assert repr(replayed).splitlines()[0].endswith("under easy, greedy")


def test_a_loaded_log_is_priced_twice_without_a_change(log: Path) -> None:
    loaded = offpeak.load(log)
    cheap, expensive = (
        offpeak.compare(offpeak.replay(offpeak.price(loaded, tariff=tariff), policy="easy"))[0]["cost"]
        for tariff in (f"on={price}EUR/MWh,off={price}EUR/MWh,hours=09:00-23:00" for price in (30, 90))
    )
    assert expensive == pytest.approx(3 * cheap)


@pytest.mark.parametrize("figure", ["cost", "power", "hours", "wait", "nodes", "trade", "weeks", "delays", "cycles"])
def test_each_figure_of_the_report_can_be_plotted(log: Path, figure: str) -> None:
    replayed = offpeak.replay(offpeak.load(log), policy="easy", capacity=["always-on", "timeout:10min"])
    drawn = json.loads(offpeak.plot(replayed, figure).to_json())
    assert drawn["data"]
    assert "var(--" not in json.dumps(drawn)
    legend = [trace["name"] for trace in drawn["data"] if trace["showlegend"]]
    assert len(set(legend)) == len(legend)


def test_a_figure_shows_the_policy_of_the_choice(log: Path) -> None:
    replayed = offpeak.replay(offpeak.load(log), policy="easy", capacity=["always-on", "timeout:10min"])
    awake, sleeping = (
        json.loads(offpeak.plot(replayed, "nodes", choice=name).to_json())["data"]
        for name in ("easy", "easy timeout:10min")
    )
    assert len(sleeping) > len(awake)


def test_the_table_is_that_of_the_command(log: Path, offpeak_command: Offpeak) -> None:
    figures = offpeak.compare(offpeak.replay(offpeak.load(log), policy="easy,greedy"))
    table = repr(figures)
    assert table in offpeak_command("simulate", log, "--policy", "easy,greedy").stdout
    assert figures._repr_html_().startswith("<pre>policy ")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda log: offpeak.load(log, policy="easy"),
            "load() has no option 'policy'\nHint: it is an option of replay()",
        ),
        (lambda log: offpeak.load(log, node=3), "load() has no option 'node'\nHint: did you mean nodes?"),
        (
            lambda log: offpeak.replay(offpeak.load(log), policy="gredy"),
            "unknown policy 'gredy'\nHint: did you mean greedy?",
        ),
        (
            lambda log: offpeak.plot(offpeak.replay(offpeak.load(log)), "nodes"),
            "no figure 'nodes' of this replay\nHint: kn",
        ),
        (lambda log: offpeak.load(log.parent / "no.swf"), "no.swf: no such file\nHint: `ls "),
        (lambda _: offpeak.load(3), "load() does not accept int\nHint: give a path, a DataFrame or an Arrow table"),
        (
            lambda log: offpeak.load(log, config=3),
            "config cannot be of type int\nHint: give the path of a settings file",
        ),
        (lambda _: offpeak.load(pa.table({"Submit": [[1]]})), "column Submit: Unsupported cast from list"),
        (
            lambda log: offpeak.price(offpeak.load(log), start=3),
            'start cannot be of type int\nHint: write it like "2023-01-09"',
        ),
        (
            lambda log: offpeak.replay(offpeak.load(log), replays=pa.table({"a": [1]})),
            " is not a number of replays\nHint: ",
        ),
        (
            lambda log: offpeak.replay(offpeak.load(log), replays="3"),
            "replays='3' is not a number of replays\nHint: at l",
        ),
        (lambda log: offpeak.plot(offpeak.replay(offpeak.load(log)), 3), "no figure 3 of this replay\nHint: known"),
        (lambda _: offpeak.load(pa.table([[1], [2]], names=["a", "a"])), "a table with two columns 'a'\nHint: rename"),
        (lambda _: offpeak.load(pa.table({"User": [b"\xff"]})), "column User: Invalid UTF8"),
        (lambda _: offpeak.load(pa.table({"a": [1]})), "a table without a column of sacct\nHint: it needs JobIDRaw"),
        (lambda _: offpeak.load(pa.table({"Submit": [1]})), "table:1: has no columns JobIDRaw, Start, End, State"),
        (lambda log: offpeak.load(log, nodes=[3]), "--nodes: "),
        (
            lambda log: offpeak.load(log, nodes=pa.table({"nodes": [3]})),
            "--nodes does not accept a table\nHint: tables are",
        ),
        (lambda log: offpeak.price(log), "price() does not accept PosixPath\nHint: give what load() returns"),
        (lambda log: offpeak.price(offpeak.load(log), prices=3), "--prices: prices.file: 3 is not text"),
        (lambda _: offpeak.replay(None), "replay() does not accept None\nHint: give what load() returns"),
        (
            lambda log: offpeak.compare(offpeak.load(log)),
            "compare() does not accept LoadedLog\nHint: give what replay()",
        ),
        (
            lambda log: offpeak.plot(offpeak.load(log)),
            "plot() does not accept LoadedLog\nHint: give what replay() returns",
        ),
    ],
    ids=["of another function", "misspelt", "policy", "figure", "file", *["argument"] * 18],
)
def test_errors_name_the_way_out(log: Path, wrong: Callable[[Path], object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        wrong(log)
    assert message in "\n".join([str(caught.value), *caught.value.__notes__])


def test_tables_are_read_as_the_files_that_they_are_of(tmp_path: Path) -> None:
    """Also with times instead of text, an index instead of a column, and missing values."""
    jobs = pandas.read_csv(SAMPLE_SACCT, sep="|").iloc[:400]
    jobs["TimelimitRaw"] = jobs["TimelimitRaw"].where(jobs.index % 7 > 0)
    jobs["JobName"] = "with | and\nmore"
    whole = jobs.drop(columns="JobName").astype({"TimelimitRaw": "Int64"})
    (tmp_path / "sacct.txt").write_text(whole.to_csv(sep="|", index=False))
    timed = jobs.assign(**{name: pandas.to_datetime(jobs[name]) for name in ("Submit", "Start", "End")})
    timed["TimelimitRaw"] = pandas.to_timedelta(jobs["TimelimitRaw"], unit="min")
    zoned = timed.assign(**{name: timed[name].dt.tz_localize("Europe/Berlin") for name in ("Submit", "Start", "End")})
    prices = pandas.read_csv(SAMPLE_PRICES, index_col=0, parse_dates=True)
    figures = []
    for log, series in (
        (tmp_path / "sacct.txt", SAMPLE_PRICES),
        (jobs, pa.Table.from_pandas(prices.reset_index())),
        (pa.Table.from_pandas(timed), prices),
        (zoned, prices["price"].tz_convert("Asia/Tokyo")),
    ):
        loaded = offpeak.load(log, time_zone="Europe/Berlin")
        priced = offpeak.price(loaded, prices=series, price_layout="unit=EUR/MWh")
        replayed = offpeak.replay(priced, policy="easy,greedy")
        figures.append(offpeak.compare(replayed).to_pandas()[["policy", "cost", "mean_wait_s"]])
    for each in figures[1:]:
        pandas.testing.assert_frame_equal(figures[0], each)
    schedule = replayed.to_pandas()
    assert list(schedule["policy"].unique()) == ["easy", "greedy"]
    waits_s = (schedule["start_s"] - schedule["submit_s"]).groupby(schedule["policy"]).mean()
    assert waits_s["greedy"] == pytest.approx(figures[0]["mean_wait_s"][1])


def test_what_stands_beside_the_columns_of_a_table_changes_nothing() -> None:
    """The numbers of rows, other columns, other times, and an index of text; jobs that are left out are named."""
    jobs = pandas.read_csv(SAMPLE_SACCT, sep="|").iloc[:300].drop_duplicates("Submit")
    prices = pandas.read_csv(SAMPLE_PRICES, index_col=0, parse_dates=True)
    files = offpeak.price(offpeak.load(jobs, time_zone="UTC", nodes=128), prices=SAMPLE_PRICES)
    shuffled = jobs.sample(frac=1, random_state=1).assign(
        total_cpu_s=1, user_name=pandas.Categorical(["x"] * len(jobs))
    )
    published = prices.assign(published=prices.index - pandas.Timedelta("1D"))[["published", "price"]]
    texts = prices.set_axis(prices.index.strftime("%Y-%m-%dT%H:%MZ")).rename_axis(None)
    for table, series in ((shuffled.rename(columns=str.lower), published), (jobs[jobs.index >= 0], texts)):
        loaded = offpeak.load(table, time_zone="UTC", nodes=np.int64(128))
        priced = offpeak.price(loaded, prices=series, price_layout="unit=EUR/MWh,value=price")
        costs = [offpeak.compare(offpeak.replay(each, policy="easy"))[0]["cost"] for each in (priced, files)]
        assert costs[0] == pytest.approx(costs[1])
    missing = offpeak.load(jobs.assign(Start=jobs["Start"].where(jobs.index > 9)), time_zone="UTC", lenient=True)
    assert any("10" in note for note in missing.notes)
    assert missing.notes[0] in repr(missing)


def test_import_loads_nothing() -> None:
    code = "import sys, offpeak; print(*sorted({'numpy', 'numba', 'offpeak.ui'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "\n"
    assert {"load", "price", "replay", "compare", "plot"} <= set(dir(offpeak))
    with pytest.raises(AttributeError, match="no attribute 'relpay'"):
        offpeak.relpay  # noqa: B018


USER_SCRIPT = """
import offpeak

log = offpeak.load("log.swf", nodes=8)
replayed = offpeak.replay(offpeak.price(log, prices="prices.csv"), policy=["easy", "greedy"])
saving: str = offpeak.compare(replayed)[1]["saving_pct"]
reveal_type(replayed)
offpeak.load(3)
offpeak.relpay
"""


def test_a_type_checker_knows_the_functions(repository: Path, tmp_path: Path) -> None:
    """In an environment that has our package as a wheel installs it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (installed,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (installed / "offpeak").symlink_to(repository / "offpeak")
    (tmp_path / "script.py").write_text(USER_SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    done = subprocess.run([*command, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    expected = 'has incompatible type "int"; expected "str | PathLike[str] | ArrowTable"  [arg-type]'
    assert done.stdout.splitlines() == [
        'script.py:7: note: Revealed type is "offpeak.ui.replay.simulate.LogReplay"',
        f'script.py:8: error: Argument 1 to "load" {expected}',
        'script.py:9: error: Module has no attribute "relpay"; maybe "replay"?  [attr-defined]',
        "Found 2 errors in 1 file (checked 1 source file)",
    ]


def test_jupyter_completes_the_functions_and_their_arguments() -> None:
    typed = {"offpeak.re": "replay", "offpeak.load('log.swf', len": "lenient="}
    for text, offered in typed.items():
        names = [each.name for each in jedi.Interpreter(text, [{"offpeak": offpeak}]).complete()]
        assert offered in names
        names = [each.name for each in jedi.Script(f"import offpeak\n{text}").complete()]
        assert offered in names


def test_the_notebook_runs(repository: Path, tmp_path: Path) -> None:
    """In a process of its own, as Jupyter runs it; its file keeps no outputs."""
    notebook = repository / "docs" / "tutorial" / "replay.ipynb"
    assert all(not cell.get("outputs") for cell in json.loads(notebook.read_text())["cells"])
    code = (
        "import sys, nbformat; from nbclient import NotebookClient\n"
        "notebook = nbformat.read(sys.argv[1], 4)\n"
        "NotebookClient(notebook, timeout=300, kernel_name='python3').execute()\n"
        "nbformat.write(notebook, sys.argv[2])"
    )
    out = tmp_path / "run.ipynb"
    done = subprocess.run([sys.executable, "-c", code, notebook, out], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = json.dumps(json.loads(out.read_text()))
    assert "easy timeout:10min" in shown
    assert shown.count("application/vnd.plotly.v1+json") == 2
