"""`offpeak report --year` as an operator runs it: text, page, CSV and workbook."""

import csv
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openpyxl import load_workbook
from playwright.sync_api import Browser, Page
from year_site import job, unix_s, year_ledger

from offpeak.installation import install_hint
from offpeak.ui.command import run

Offpeak = Callable[..., subprocess.CompletedProcess[str]]
SETTINGS = """\
[data_centre]
year = 2025
total_energy_kwh = 52560.0
certificates_kwh = 20000.0
agreements_kwh = 0.0
on_site_kwh = 0.0
"""
FORMULA = "=HYPERLINK(1)"


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"TZ": "Europe/Berlin"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    start = unix_s(2025, 3)
    jobs = [job("1", "<b>physics", start, 10, 10.0), job("2", FORMULA, start, 1, 1.0), job("3", "chem", start, 1, None)]
    return year_ledger(tmp_path_factory.mktemp("site") / "ledger.sqlite", 2025, jobs=jobs)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "offpeak.toml"
    file.write_text(SETTINGS)
    return file


def test_the_sheet_as_text_and_csv(url: str, settings: Path, offpeak: Offpeak, tmp_path: Path) -> None:
    done = offpeak("report", "--year", "2025", "--ledger", url, "--config", settings, "--csv", "y.csv")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Data centre, 2025: 2025-01-01 to 2025-12-31, Europe/Berlin"
    (pue,) = [line.split() for line in lines if " PUE " in line]
    assert pue[3:] == ["PUE", "1.50", "measured", "and", "entered", "E_DC", "/", "E_IT"]
    (water,) = [line.split() for line in lines if " W_IN " in line]
    assert water[3:] == ["W_IN", "m3", "not", "known", "set", "data_centre.water_m3"]
    with (tmp_path / "y.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["part"] for row in rows} == {"data centre", "customer", "month"}
    assert all((row["value"] == "") == (row["origin"] == "not known") for row in rows)
    assert all(row["basis"] for row in rows)
    (energy,) = [row for row in rows if row["symbol"] == "E_IT"]
    assert (float(energy["value"]), energy["rule"]) == (pytest.approx(4.0 * 8760), "Annex II 1 (e)")


def test_the_workbook_has_numbers_and_no_formula(url: str, settings: Path, offpeak: Offpeak, tmp_path: Path) -> None:
    done = offpeak("report", "--year", "2025", "--ledger", url, "--config", settings, "--xlsx", "y.xlsx")
    assert done.stdout.endswith("\nwritten: y.xlsx\n")
    book = load_workbook(tmp_path / "y.xlsx")
    assert book.sheetnames == ["Data centre", "Customers", "Months"]
    values = {row[3].value: row[4] for row in book["Data centre"].iter_rows(min_row=2)}
    assert (values["PUE"].value, values["PUE"].data_type) == (pytest.approx(1.5), "n")
    assert values["W_IN"].value is None
    names = {row[1] for row in book["Customers"].iter_rows(min_row=2)}
    assert {cell.value for cell in names} == {"<b>physics", FORMULA, "chem", "(no job)"}
    assert {cell.data_type for cell in names} == {"s"}
    assert book["Months"].max_row == 1 + 4 * 12


def test_without_openpyxl_it_says_how_to_install_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    path = tmp_path / "y.xlsx"
    assert run(["report", "--year", "2025", "--ledger", url, "--xlsx", str(path)]) == 2
    error = f"offpeak: error: --xlsx {path} needs openpyxl, which is not installed\n  hint: {install_hint('sheets')}\n"
    assert capsys.readouterr().err == error
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--year", "25"), "--year 25: is not a year"),
        (("--year", "2300"), "--year 2300: has not begun"),
        (("--year", "9999"), "--year 9999: has not begun"),
        (("--year", "2025", "--month", "2025-01"), "--year excludes --month"),
        (("--month", "2025-01", "--xlsx", "x.xlsx"), "--xlsx x.xlsx: is a sheet of a year"),
        (("--year", "2025", "--xlsx", "no/y.xlsx"), "no/y.xlsx: cannot be written"),
        (("--year", "2025", "--ledger", "sqlite:////none/ledger.sqlite"), "/none/ledger.sqlite: there is no ledger"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(url: str, offpeak: Offpeak, arguments: tuple[str, ...], error: str) -> None:
    done = offpeak("report", *([] if "--ledger" in arguments else ["--ledger", url]), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.fixture
def opened(
    url: str, settings: Path, offpeak: Offpeak, tmp_path: Path, chromium: Browser
) -> Iterator[Callable[[int, str], Page]]:
    """Opens the page at a width in a colour scheme; it complains of nothing and asks for nothing."""
    done = offpeak("report", "--year", "2025", "--ledger", url, "--config", settings, "--html", "y.html")
    assert done.returncode == 0, done.stderr
    complaints: list[str] = []
    contexts = []

    def open_page(width: int, scheme: str) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        page.goto((tmp_path / "y.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_the_page_on_a_screen_and_a_phone(opened: Callable[[int, str], Page]) -> None:
    page = opened(1200, "light")
    assert page.title() == "Data centre, 2025"
    assert page.locator("h2").all_inner_texts() == [
        "Month by month",
        "Data centre",
        "Customers",
        "Not known yet: 29 values, and how to fill them in",
    ]
    assert re.match(r"[\d,]+ kWh", page.locator(".hero").inner_text())
    assert page.locator(".columns [role=listitem]").count() == 12
    pue = page.locator("tr", has_text="Power Usage Effectiveness")
    assert pue.locator("td").last.inner_text().split() == ["1.50", "measured", "and", "entered"]
    assert page.locator("tr", has_text="Total water input").count() == 0
    assert page.locator("details li", has_text="Total water input").count() == 1
    assert "not known" not in page.locator("table").all_inner_texts()
    for scheme in ("light", "dark"):
        narrow = opened(390, scheme)
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
