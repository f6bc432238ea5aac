"""`offpeak report` as an operator runs it, and its page as people open it."""

import csv
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from month_site import MonthSite, booked, month_site
from playwright.sync_api import Browser, Page

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_means
from offpeak.ledger.rows import JobGpus, JobUse, Price, SavingRecord
from offpeak.model.time_range import TimeRange
from offpeak.settings.ledger import LedgerSettings

Offpeak = Callable[..., subprocess.CompletedProcess[str]]
MONTH = ("--month", "2023-05")


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"TZ": "Europe/Berlin"}


@pytest.fixture(scope="module")
def site() -> MonthSite:
    return month_site()


@pytest.fixture(scope="module")
def folder(site: MonthSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the ledger of the month is."""
    folder = tmp_path_factory.mktemp("site")
    booked(site, folder / "ledger.sqlite")
    return folder


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.sqlite'}"


def small_ledger(tmp_path: Path) -> str:
    """Return a ledger with one job and no price."""
    url = f"sqlite:///{tmp_path / 'small.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    start = 1_683_000_000.0
    ledger.write_jobs([JobUse("7", start, start + 60, "ann", "<b>a", "b", "n1", 3.6e6, None, "", None, "modelled: x")])
    assert ledger.close() == 0
    return url


def test_a_month_at_an_assumed_tariff_says_so_first(offpeak: Offpeak, tmp_path: Path) -> None:
    url = small_ledger(tmp_path)
    ledger = Ledger(LedgerSettings(url=url))
    ledger.write_prices([Price(1_683_000_000.0, 1_683_003_600.0, 30.0, "EUR", "assumed tariff")])
    assert ledger.close() == 0
    done = offpeak("report", *MONTH, "--ledger", url, "--html", "out.html")
    note = "Prices: for 100 % of the priced time none were set, and a tariff is assumed: 90 EUR/MWh from 09:00 to 23:00"
    assert f"\n1. {note}" in done.stdout
    assert note in (tmp_path / "out.html").read_text()


def test_the_month_as_text(url: str, offpeak: Offpeak, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    done = offpeak("report", *MONTH, "--ledger", url, "--csv", "out.csv")
    assert (done.returncode, done.stderr) == (0, "")
    golden("month.txt", "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n")
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["account"] * 3 + ["jobs", "nodes", "saved", "saved"]
    accounts, total, order = rows[:3], rows[3], rows[-2]
    for column in ("jobs", "energy_kwh", "cost", "co2_kg"):
        assert sum(float(row[column]) for row in accounts) == pytest.approx(float(total[column]))
    parts = ("measured_kwh", "partly_kwh", "modelled_kwh")
    assert sum(float(total[part]) for part in parts) == pytest.approx(float(total["energy_kwh"]))
    assert float(order["low"]) <= float(order["cost"]) <= float(order["high"])
    assert all(row["basis"].startswith(("measured", "partly", "modelled")) for row in rows)


def test_a_month_of_shadow_says_what_would_have_been_saved(tmp_path: Path, offpeak: Offpeak) -> None:
    url = small_ledger(tmp_path)
    ledger = Ledger(LedgerSettings(url=url))
    day = (
        1_682_978_400.0,
        1_683_064_800.0,
        "as it was, all nodes on",
        9 * 3.6e6,
        0.9,
        2 * 3.6e6,
        0.2,
        "EUR",
        "replays",
    )
    shadow = SavingRecord(
        *day, is_shadow=True, low_cost=0.6, high_cost=0.8, node_hours=20.0, delayed_jobs=3, delay_s=40
    )
    ledger.write_savings([shadow])
    assert ledger.close() == 0
    done = offpeak("report", *MONTH, "--ledger", url, "--html", "r.html", "--csv", "r.csv")
    sentence = (
        "Shadow mode would have saved 0.70 EUR (0.60 to 0.80); 7.00 kWh, 20.0 node-hours asleep, 3 jobs delayed by 40 s"
    )
    assert f"{sentence} on average." in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert "0.70 EUR would have been saved" in page
    assert "offpeak only recorded what it would do" in page
    assert "sleeping nodes, in shadow mode" in done.stdout
    with (tmp_path / "r.csv").open() as file:
        assert [row["kind"] for row in csv.DictReader(file)][-1] == "shadow"


def test_without_prices_it_says_what_is_missing(tmp_path: Path, offpeak: Offpeak) -> None:
    done = offpeak("report", *MONTH, "--ledger", small_ledger(tmp_path), "--html", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nwritten: r.html\n")
    (account,) = [line.split() for line in done.stdout.splitlines() if line.startswith("<b>a")]
    assert account == ["<b>a", "1", "1.00", "0", "%", "0", "%", "100", "%", "not", "known", "not", "known"]
    assert "\nNo saving is booked.\n" in done.stdout
    assert "1.00 kWh of jobs had no price" in done.stdout
    assert "<b>a" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--month", "May"), "--month May: is not a month"),
        (("--month", "2300-01"), "--month 2300-01: has not begun"),
        (("--month", "2023-05", "--html", "no/r.html"), "no/r.html: cannot be written"),
        (("--ledger", "sqlite:////none/ledger.sqlite"), "/none/ledger.sqlite: there is no ledger"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(url: str, offpeak: Offpeak, arguments: tuple[str, ...], error: str) -> None:
    done = offpeak("report", *([] if "--ledger" in arguments else ["--ledger", url]), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_month_of_which_nothing_is_known(url: str, offpeak: Offpeak) -> None:
    done = offpeak("report", "--month", "2024-02", "--ledger", url)
    assert done.stdout.splitlines() == [
        "February 2024: 2024-02-01 to 2024-02-29, Europe/Berlin",
        "",
        "nothing from 2024-02-01 00:00:00 to 2024-03-01 00:00:00",
    ]


@pytest.fixture
def opened(url: str, offpeak: Offpeak, tmp_path: Path, chromium: Browser) -> Iterator[Callable[[int, str], Page]]:
    """Opens the page at a width in a colour scheme; it complains of nothing and asks for nothing."""
    done = offpeak("report", *MONTH, "--ledger", url, "--html", "r.html")
    assert done.returncode == 0, done.stderr
    complaints: list[str] = []
    contexts = []

    def open_page(width: int, scheme: str) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
        page.goto((tmp_path / "r.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def count_printed_pages(page: Page) -> int:
    """Return on how many pages the page prints."""
    return len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True)))


def test_the_page_on_a_screen_and_a_phone(opened: Callable[[int, str], Page]) -> None:
    page = opened(1200, "light")
    assert page.title() == "May 2023: energy and cost"
    assert page.locator("h2").all_inner_texts() == [
        "The bill, day by day",
        "What each measure saved",
        "Who used what",
        "How these figures came about",
    ]
    assert re.fullmatch(
        r"[\d.,]+ EUR saved partly measured",
        page.locator(".hero").inner_text().replace("\n", " "),
    )
    columns = page.locator(".columns [role=listitem]")
    assert columns.count() == 2
    assert re.fullmatch(
        r"2023-05-0[12]: [\d.]+ EUR, [\d.]+ EUR without offpeak", columns.first.get_attribute("title") or ""
    )
    assert all(columns.nth(at).locator(".bar").bounding_box()["height"] > 0 for at in range(2))  # type: ignore[index]
    assert "not known" not in page.locator("main > :not(details)").all_inner_texts()
    assert count_printed_pages(page) <= 2
    for scheme in ("light", "dark"):
        narrow = opened(390, scheme)
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_demand_charge_of_the_month_is_a_line_of_its_own(url: str, offpeak: Offpeak, tmp_path: Path) -> None:
    """The charge of the year counts with the 31 days of May; the peak is that of the sums of all metered nodes."""
    tariff = 'currency = "EUR"\nzone = "Europe/Berlin"\nvat_percent = 19\n[[energy]]\nprice = "90EUR/MWh"\n'
    (tmp_path / "tariff.toml").write_text(tariff + '[[demand]]\nprice = "120EUR/kW"\nper = "year"\n')
    (tmp_path / "offpeak.toml").write_text('[prices]\ntariff = "tariff.toml"\n')
    done = offpeak(
        "report", *MONTH, "--ledger", url, "--config", "offpeak.toml", "--csv", "out.csv", "--html", "o.html"
    )
    assert (done.returncode, done.stderr) == (0, "")
    with (tmp_path / "out.csv").open() as file:
        (line,) = [row for row in csv.DictReader(file) if row["kind"] == "demand"]
    name = f"demand 2023: {peak_kw(url):,.1f} kW on 2023-05-"
    assert line["name"].startswith(name)
    assert float(line["cost"]) == pytest.approx(peak_kw(url) * 120 * 1.19 * 31 / 365)
    assert name in done.stdout
    assert name in (tmp_path / "o.html").read_text()


def test_report_bill_and_ledger_show_one_demand_charge(url: str, offpeak: Offpeak, tmp_path: Path) -> None:
    """What was saved of it is not known in all of them, for the same reason."""
    (tmp_path / "tariff.toml").write_text(TARIFF.replace("19", "0"))
    (tmp_path / "offpeak.toml").write_text('[prices]\ntariff = "tariff.toml"\n')
    config = ("--ledger", url, "--config", "offpeak.toml")
    report = offpeak("report", *MONTH, *config, "--csv", "out.csv").stdout
    with (tmp_path / "out.csv").open() as file:
        charge, saved = [row for row in csv.DictReader(file) if "demand 2023-05" in row["name"]]
    assert (charge["kind"], saved["kind"], saved["cost"]) == ("demand", "saved", "")
    assert saved["basis"].startswith("not known: no node was measured at 2023-05-03 00:00")
    cost = f"{float(charge['cost']):,.2f} EUR"
    bill = offpeak("report", "--bill", "2023-05", *config).stdout
    ledger = offpeak("ledger", "savings", "-S", "2023-05-01", "-E", "2023-06-01", *config).stdout
    for shown in (report, bill, ledger):
        assert cost in next(line for line in shown.splitlines() if line.startswith("demand 2023-05"))
    assert f"{charge['name']}, {cost}; saving {saved['basis'].replace(':', ', because', 1)}" in ledger


def test_who_left_gpus_idle_is_listed_by_account_and_user(offpeak: Offpeak, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'gpus.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    start = datetime(2023, 5, 3, tzinfo=UTC).timestamp()
    for name, user, idle_h, busy_h, cost in (
        ("1", "ann", 1.5, 2.0, 0.05),
        ("2", "<bob>", 3.0, 1.0, 0.1),
        ("3", "eve", 0, 0, None),
    ):
        ledger.write_jobs([JobUse(name, start, start + 3600, user, "bio", "gpu", "n1", 3.6e6, None, "")])
        hours = (each * 3600.0 for each in (4.0, idle_h, busy_h))
        ledger.write_job_gpus([JobGpus(name, start, start + 3600, *hours, idle_h * 1.8e5, cost, "EUR" if cost else "")])
    assert ledger.close() == 0
    files = ("--csv", "out.csv", "--html", "out.html")
    done = offpeak("report", *MONTH, "--ledger", url, *files)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout.partition("account, user")[2].splitlines()[1:4]
    assert [line.split("  ")[0] for line in table] == ["bio, <bob>", "bio, ann", "bio, eve"]
    assert [" ".join(line.split()[2:]) for line in table] == [
        "1 4.00 3.00 0.15 0.10 EUR",
        "1 4.00 1.50 to 2.00 0.07 0.05 EUR",
        "1 4.00 not known not known not known",
    ]
    assert "its utilisation is below 1 %" in done.stdout
    page = (tmp_path / "out.html").read_text()
    assert "GPUs of the jobs that ended" in page
    assert "bio, &lt;bob&gt;" in page
    with (tmp_path / "out.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "idle GPUs"]
    assert [(row["gpu_h"], row["idle_gpu_h"], row["busy_gpu_h"]) for row in rows] == [
        ("4.0", "3.0", "1.0"),
        ("4.0", "1.5", "2.0"),
        ("4.0", "0.0", "0.0"),
    ]


TARIFF = """currency = "EUR"
zone = "Europe/Berlin"
vat_percent = 19
[[energy]]
name = "flat"
price = "90EUR/MWh"
[[levy]]
name = "electricity tax"
price = "20.5EUR/MWh"
[[demand]]
price = "8EUR/kW"
per = "month"
"""


def test_the_bill_of_a_month(url: str, offpeak: Offpeak, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    (tmp_path / "tariff.toml").write_text(TARIFF)
    args = ("report", "--tariff", "tariff.toml", "--ledger", url, "--csv", "bill.csv", "--html", "bill.html")
    done = offpeak(*args, "--bill", "2023-05")
    assert (done.returncode, done.stderr) == (0, "")
    golden("bill.txt", "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n")
    with (tmp_path / "bill.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["energy flat", "electricity tax", "demand 2023-05", "tax 19 %"]
    energy, levy, demand, tax = (float(row["cost"]) for row in rows)
    assert (energy, levy) == (round(14.4 * 0.09, 2), round(14.4 * 0.0205, 2))
    assert demand == pytest.approx(peak_kw(url) * 8, abs=0.005)
    assert tax == pytest.approx((energy + levy + demand) * 0.19, abs=0.005)
    assert rows[2]["highest_at"].startswith("2023-05-")
    total = f"{energy + levy + demand + tax:,.2f} EUR"
    for text in (done.stdout, (tmp_path / "bill.html").read_text()):
        assert total in text
    half = offpeak(*args, "--bill", "2023-05-01/2023-05-16")
    assert "2023-05-01/2023-05-16: 2023-05-01 00:00 to 2023-05-16 00:00, Europe/Berlin" in half.stdout
    year = offpeak(*args, "--bill", "2023")
    assert "Power bill, 2023: 2023-01-01 00:00 to 2024-01-01 00:00" in year.stdout
    assert "demand 2023-05" in year.stdout


@pytest.mark.parametrize(
    ("period", "more", "problem"),
    [
        ("2023-05", (), "--bill: no tariff is set"),
        ("May", ("--tariff", "on=1EUR/kWh,off=1EUR/kWh"), "--bill May: is not a period"),
        ("3023", ("--tariff", "on=1EUR/kWh,off=1EUR/kWh"), "--bill 3023: has not begun"),
        ("2023-06-01/2023-05-01", ("--tariff", "on=1EUR/kWh,off=1EUR/kWh"), "is not after the start"),
        ("2023", ("--month", "2023-05"), "--bill excludes --month and --year"),
        ("2023", ("--xlsx", "b.xlsx"), "--xlsx b.xlsx: is a sheet of a year"),
    ],
)
def test_a_bill_that_cannot_be_made(
    url: str, offpeak: Offpeak, period: str, more: tuple[str, ...], problem: str
) -> None:
    done = offpeak("report", "--bill", period, *more, "--ledger", url)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "hint:" in done.stderr


def peak_kw(url: str) -> float:
    """Return the highest sum of the means of all nodes in a quarter-hour."""
    with open_ledger(url) as connection:
        sums: dict[int, float] = {}
        for mean in node_means(connection, TimeRange(1_682_892_000, 1_685_570_400)):
            sums[mean.at_unix_s] = sums.get(mean.at_unix_s, 0.0) + mean.power_w
    return max(sums.values()) / 1000
