"""What a command says whose extra is not installed: it never goes on with other figures without a word."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from offpeak.installation import install_hint
from sim_backend.sample import SAMPLE_SACCT
from ui.command import run

pytestmark = pytest.mark.thorough

BOOSTED = "scheduling.estimates: boosted needs scikit-learn, which is not installed"
OR_TOOLS = "needs OR-tools, which is not installed"
ENTSOE = ("--zone", "DE-LU", "--price-feeds", "entso-e,energy-charts")
US = ("--zone", "CAISO", "--price-feeds", "us-markets")
GRIDSTATUS = "feeds.prices: us-markets needs gridstatus, which is not installed"
FLOW = f"a policy by minimum cost maximum flow {OR_TOOLS}"
CASES = [
    ("page", "starlette", ["page"], "the page needs starlette, which is not installed"),
    ("page", "starlette", ["demo", "--listen", "127.0.0.79:8017"], "the page needs starlette, which is not installed"),
    ("png", "matplotlib", ["prices", "--plot", "x.png"], "--plot x.png needs matplotlib, which is not installed"),
    ("figures", "matplotlib", ["study", "sleeping"], "a study with figures needs matplotlib, which is not installed"),
    ("feeds-entsoe", "entsoe", ["prices", *ENTSOE], "feeds.prices: entso-e needs entsoe-py, which is not installed"),
    ("feeds-us", "gridstatus", ["forecast", "price", *US], GRIDSTATUS),
    ("predictors", "sklearn", ["simulate", "LOG", "--estimates", "boosted"], BOOSTED),
    ("predictors", "sklearn", ["simulate", "LOG", "--config", "SETTINGS"], BOOSTED),
    ("planner", "ortools", ["study", "profit-cooling"], f"a search by constraint programming {OR_TOOLS}"),
    ("federation", "ortools", ["study", "day-ahead", "--part", "xsede"], FLOW),
    ("federation", "ortools", ["study", "day-ahead", "--part", "nordugrid"], FLOW),
]
NOTE = "without scikit-learn: no boosted trees, and the what-if plans with the users' estimates; "
JOB = ["--size", "4", "--estimate", "2h", "--user", "user15"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "sacct.txt"
    with gzip.open(SAMPLE_SACCT, "rt") as whole:
        path.write_text("".join(line for line, _ in zip(whole, range(400), strict=False)))
    return path


@pytest.mark.parametrize(("extra", "module", "arguments", "error"), CASES)
def test_missing_extra_package_is_an_error(
    extra: str, module: str, arguments: list[str], error: str, log: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    settings = tmp_path / "offpeak.toml"
    settings.write_text('[scheduling]\nestimates = "boosted"\n')
    named = {"LOG": str(log), "SETTINGS": str(settings)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert run([named.get(argument, argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"offpeak: error: {error}\n  hint: {install_hint(extra)}\n"
    assert printed.out == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("quantity", "predictors"),
    [
        ("runtime", ["estimate", "last two", "similar jobs"]),
        ("power", ["constant", "history"]),
        ("wait", ["arbiter without trees", "similar jobs", "what-if"]),
    ],
)
def test_a_forecast_without_trees_names_what_is_left_out(
    quantity: str, predictors: list[str], log: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert run(["forecast", quantity, str(log), *JOB, "--json"]) == 0
    answered = json.loads(capsys.readouterr().out)
    assert [answer["predictor"] for answer in answered["answers"]] == predictors
    assert NOTE + install_hint("predictors") in answered["notes"]


def test_the_table_of_a_forecast_says_so_too(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert run(["forecast", "runtime", str(log), *JOB]) == 0
    assert NOTE + install_hint("predictors") in capsys.readouterr().out.splitlines()


def test_scores_without_trees_name_what_is_left_out(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert run(["score", str(log), "--json", "--processes", "1"]) == 0
    answered = json.loads(capsys.readouterr().out)
    assert answered["notes"][-1] == NOTE + install_hint("predictors")
    named = {row["predictor"] for rows in (answered["run-times"], answered["waits"]) for row in rows}
    assert named == {"estimate", "last two", "nobody waits", "similar jobs", "what-if", "arbiter without trees"}


def test_all_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["page"]) == 2
    error = "offpeak: error: the page needs starlette and uvicorn, which are not installed\n"
    assert capsys.readouterr().err.startswith(error)
