"""What a command says whose extra is not installed: it never goes on with other figures without a word."""

import gzip
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offpeak.errors import BadInput
from offpeak.executor import LocalProcesses
from offpeak.installation import install_hint
from offpeak.predictors.run_times import chosen_run_time
from offpeak.predictors.scores import take_exam
from offpeak.sim_backend.sample import SAMPLE_SACCT
from offpeak.ui.command import run
from offpeak.ui.forecast.log_scores import read_log_file, run_times_of
from offpeak_studies.day_ahead.inputs import PricePlace, make_forecasts

BOOSTED = "scheduling.estimates: boosted needs scikit-learn, which is not installed"
OR_TOOLS = "needs OR-tools, which is not installed"
SCIPY = "needs scipy, which is not installed"
ENTSOE = ("--zone", "DE-LU", "--price-feeds", "entso-e,energy-charts")
INPUTS = ("--zone", "DE-LU", "--input-feeds", "open-meteo-wind,entso-e-load")
US = ("--zone", "CAISO", "--price-feeds", "us-markets")
GRIDSTATUS = "feeds.prices: us-markets needs gridstatus, which is not installed"
FLOW = f"a policy by minimum cost maximum flow {OR_TOOLS}"
CASES = [
    ("page", "starlette", ["page"], "the page needs starlette, which is not installed"),
    ("page", "starlette", ["demo", "--listen", "127.0.0.79:8017"], "the page needs starlette, which is not installed"),
    ("feeds-entsoe", "entsoe", ["prices", *ENTSOE], "feeds.prices: entso-e needs entsoe-py, which is not installed"),
    (
        "feeds-entsoe",
        "entsoe",
        ["forecast", "price", *INPUTS],
        "feeds.inputs: entso-e-load needs entsoe-py, which is not installed",
    ),
    ("feeds-us", "gridstatus", ["forecast", "price", *US], GRIDSTATUS),
    ("predictors", "sklearn", ["simulate", "LOG", "--estimates", "boosted"], BOOSTED),
    ("predictors", "sklearn", ["simulate", "LOG", "--config", "SETTINGS"], BOOSTED),
    ("predictors", "sklearn", ["estimate", "LOG", "--config", "SETTINGS"], BOOSTED),
    ("predictors", "scipy", ["simulate", "LOG", "--devices", "DEVICES"], f"a plan with PV and battery {SCIPY}"),
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


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six weeks of hourly prices, of which LEAR needs all."""
    path = tmp_path_factory.mktemp("prices") / "few_eur_per_mwh.csv"
    start = datetime(2024, 1, 1, tzinfo=UTC)
    hours = [(start + timedelta(hours=hour), 50 + hour % 24 + hour // 24 % 7) for hour in range(24 * 43)]
    path.write_text("\n".join(["utc,price", *(f"{at:%Y-%m-%dT%H:%MZ},{price}" for at, price in hours)]) + "\n")
    return path


@pytest.mark.parametrize(("extra", "module", "arguments", "error"), CASES)
def test_missing_extra_package_is_an_error(
    extra: str, module: str, arguments: list[str], error: str, log: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    settings = tmp_path / "offpeak.toml"
    settings.write_text('[scheduling]\nestimates = "boosted"\n')
    devices = tmp_path / "devices.toml"
    devices.write_text('[battery]\ncapacity = "1kWh"\ncharge = "1kW"\ndischarge = "1kW"\nefficiency = 0.9\n')
    named = {"LOG": str(log), "SETTINGS": str(settings), "DEVICES": str(devices)}
    monkeypatch.chdir(tmp_path)
    # Parts of it that were loaded before are missing, too.
    for name in (module, *(name for name in tuple(sys.modules) if name.startswith(f"{module}."))):
        monkeypatch.setitem(sys.modules, name, None)
    assert run([named.get(argument, argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"offpeak: error: {error}\n  hint: {install_hint(extra)}\n"
    assert printed.out == ""


@pytest.mark.parametrize("arguments", [("study", "sleeping"), ("generate", "-", "--jobs", "9", "--nodes", "4")])
def test_studies_that_are_not_installed(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "offpeak_studies", None)
    assert run(list(arguments)) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "offpeak: error: the studies are not installed"
    assert hint == f"  hint: in a clone of offpeak: python3 -m pip --python {sys.executable} install ./studies"


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
    assert run(["forecast", "score", str(log), "--json", "--processes", "1"]) == 0
    answered = json.loads(capsys.readouterr().out)
    assert answered["notes"][-1] == NOTE + install_hint("predictors")
    named = {row["predictor"] for rows in (answered["run-times"], answered["waits"]) for row in rows}
    assert named == {"estimate", "last two", "nobody waits", "similar jobs", "what-if", "arbiter without trees"}


def test_scores_of_prices_without_statsmodels_name_what_is_left_out(
    prices: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    assert run(["forecast", "score", str(prices), "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert f"SARIMA needs statsmodels, which is not installed; {install_hint('predictors')}" in printed
    assert not [line for line in printed.splitlines() if "SARIMA" in line and "needs statsmodels" not in line]


def test_forecasts_of_the_day_ahead_study_need_statsmodels(
    prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.sarimax", None)
    with pytest.raises(BadInput, match="SARIMA needs statsmodels") as refused:
        make_forecasts({"here": PricePlace(prices, tmp_path / "none.npy")}, range(7, 9), LocalProcesses(1))
    assert refused.value.hint == install_hint("predictors")


@pytest.mark.parametrize("command", [["estimate", "LOG"], ["forecast", "price", "--prices", "PRICES", "--from", "DAY"]])
def test_figures_of_a_command_that_needs_no_extra_are_the_same_without(
    command: list[str], log: Path, prices: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"LOG": str(log), "PRICES": str(prices), "DAY": "2024-02-12"}
    arguments = [named.get(argument, argument) for argument in command]
    assert run(arguments) == 0
    printed = capsys.readouterr()
    for module in ("sklearn", "statsmodels", "threadpoolctl", "ortools"):
        monkeypatch.setitem(sys.modules, module, None)
    assert run(arguments) == 0
    assert capsys.readouterr().out == printed.out


def test_the_agent_predicts_the_same_without_any_extra(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exam = run_times_of(read_log_file(log))
    with_extras = take_exam(chosen_run_time(), exam)
    for module in ("sklearn", "statsmodels", "threadpoolctl", "ortools"):
        monkeypatch.setitem(sys.modules, module, None)
    without = take_exam(chosen_run_time(), exam)
    assert without.mean.tolist() == with_extras.mean.tolist()
    assert without.basis == with_extras.basis


def test_all_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["page"]) == 2
    error = "offpeak: error: the page needs starlette and uvicorn, which are not installed\n"
    assert capsys.readouterr().err.startswith(error)
