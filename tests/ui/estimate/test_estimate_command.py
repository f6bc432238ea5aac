"""`offpeak estimate` as an admin meets it: its answer, and what it says to accounting that cannot be used."""

import json
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from offpeak.power.capacity.registry import check_policy_name
from offpeak.prices.tariff import parse_tariff
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.file import read_values
from offpeak.settings.table import Settings
from offpeak.sim_backend.sample import SAMPLE_PRICES
from offpeak.ui.estimate.page import measure_text, tax_text
from offpeak.ui.replay.likeness import NOT_CLAIMED

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]

COLUMNS = (
    "JobIDRaw|User|Account|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|"
    "ConsumedEnergyRaw|JobName"
)
MONDAY = datetime(2023, 1, 2, tzinfo=UTC)
WAITING = "1|ada|||PENDING|2023-01-02T00:00:00||Unknown|Unknown|0|60|0|0||x"
BERLIN = ("--time-zone", "Europe/Berlin")


def job(number: int, *, start: datetime, hours: float, nodes: int = 2, watts: float | None = None) -> str:
    """Return the line of a job that waited for ten minutes."""
    run = timedelta(hours=hours)
    submit, begin, end = (f"{time:%Y-%m-%dT%H:%M:%S}" for time in (start - timedelta(minutes=10), start, start + run))
    energy = "" if watts is None else str(round(watts * nodes * run.total_seconds()))
    seconds = round(run.total_seconds())
    who = f"ada{number % 3}|physics|batch|COMPLETED"
    return (
        f"{number}|{who}|{submit}|{submit}|{begin}|{end}|{seconds}|{round(2 * hours * 60)}|{nodes}|{16 * nodes}"
        f"|{energy}|solver{number % 2}"
    )


def dump(*, jobs: int = 60, watts: tuple[float, ...] | None = (150.0, 250.0)) -> str:
    """Return a dump of a job every three hours, each for five hours on two nodes."""
    lines = [
        job(n, start=MONDAY + timedelta(hours=3 * n), hours=5, watts=watts[n % len(watts)] if watts else None)
        for n in range(jobs)
    ]
    return "\n".join([COLUMNS, *lines, ""])


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text(dump(), encoding="utf-8")
    return path


def test_one_screen_tells_what_was_used_paid_and_could_have_been_saved(
    offpeak: Offpeak, sacct: Path, golden: Callable[[str, str], None]
) -> None:
    done = offpeak("estimate", sacct, *BERLIN, "--nodes", "6", "--replays", "10")
    assert (done.returncode, done.stderr) == (0, "")
    golden("estimate.txt", done.stdout)


def test_the_energy_is_that_of_the_log(offpeak: Offpeak, sacct: Path) -> None:
    document = json.loads(offpeak("estimate", sacct, *BERLIN, "--nodes", "6", "--json").stdout)
    busy_kwh = 60 * 5 * 2 * 0.2
    hours = 3 * 59 + 5
    idle_kwh = 0.075 * (6 * hours - 60 * 5 * 2)
    used = document["used"]
    assert used["energy_kwh"]["middle"] == pytest.approx(busy_kwh + idle_kwh)
    assert used["energy_kwh"]["low"] == used["energy_kwh"]["high"]
    assert used["idle_energy_kwh"] == pytest.approx(idle_kwh)
    assert used["mean_wait_s"] == pytest.approx(590)  # the first job's wait lies before the period
    assert (document["power_assumed"], document["machine_size"], document["jobs"]) == (False, 6, 60)
    assert [saving["policy"] for saving in document["savings"]] == ["greedy", "knapsack"]


def test_pv_and_battery_are_estimated_for_a_year(offpeak: Offpeak, sacct: Path, tmp_path: Path) -> None:
    devices = tmp_path / "devices.toml"
    devices.write_text('[battery]\ncapacity = "5kWh"\ncharge = "1kW"\ndischarge = "1kW"\nefficiency = 0.9\n')
    options = ("estimate", sacct, *BERLIN, "--nodes", "6", "--devices", devices)
    bill = json.loads(offpeak(*options, "--json").stdout)["devices"]
    assert bill["bound"] < bill["planned"] < bill["without"]
    printed = offpeak(*options).stdout
    a_year, most = ((bill["without"] - bill[cost]) * 8766 / bill["hours"] for cost in ("planned", "bound"))
    assert re.search(rf"^devices: battery +{a_year:,.2f} ", printed, re.MULTILINE)
    assert f"- devices: perfect knowledge would save {most:,.2f} at most; no cost of the devices" in printed


def test_assumed_power_is_a_range(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text(dump(watts=None), encoding="utf-8")
    done = offpeak("estimate", "dump.txt", *BERLIN, "--nodes", "6")
    assert "kWh" in done.stdout
    assert "(96.90 to 216.90) kWh" in done.stdout
    assert "ranges of energy and money assume 100 to 300 W per busy node" in done.stdout


def test_the_last_days_only(offpeak: Offpeak, sacct: Path) -> None:
    document = json.loads(offpeak("estimate", sacct, *BERLIN, "--days", "2", "--json").stdout)
    assert document["used"]["until_s"] - document["used"]["begin_s"] == 2 * 86_400
    assert document["jobs"] == 16


def test_a_dump_of_one_user_is_named(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(re.sub(r"[|]ada[012][|]", "|eve|", dump()))
    done = offpeak("estimate", "mine.txt", *BERLIN, "--nodes", "6", "--replays", "10")
    assert "- all jobs are of user eve: if the cluster has others, the log lacks their jobs" in done.stdout


def test_a_log_of_years_without_prices_is_estimated_over_weeks_of_the_prices(offpeak: Offpeak, tmp_path: Path) -> None:
    old = tmp_path / "sacct-2013.txt"
    old.write_text(dump().replace("2023-", "2013-"), encoding="utf-8")
    done = offpeak("estimate", old, *BERLIN, "--prices", SAMPLE_PRICES)
    assert done.returncode == 0, done.stderr
    assert "medians of 20 replays over 11 alignments with the prices" in done.stdout
    assert "submissions up to a minute later, whose bills differ from the one paid above" in done.stdout
    assert "too short for a range of order, sleep, caps, tiers: 1 whole week of jobs, 6 are needed" in done.stdout
    assert re.search(r"lay it on others of 11 weeks, within 6 weeks of that day of any year", done.stdout)


def test_levers_are_rows_of_the_table_and_of_the_json(offpeak: Offpeak, sacct: Path) -> None:
    printed = offpeak("estimate", sacct, *BERLIN, "--nodes", "6", "--report", "e.html")
    assert printed.returncode == 0, printed.stderr
    for row in (
        "sleep: timeout:10min",
        "caps: profile:1h:3",
        "not significant for these nodes and jobs: order (greedy",
    ):
        assert row in printed.stdout
    assert NOT_CLAIMED in printed.stdout
    assert "[agent]" not in printed.stdout
    assert "place: it needs other sites" in printed.stdout
    page = (sacct.parent / "e.html").read_text(encoding="utf-8")
    assert NOT_CLAIMED in page
    assert 'class="hero"' not in page
    document = json.loads(offpeak("estimate", sacct, *BERLIN, "--nodes", "6", "--days", "1", "--json").stdout)
    names = [lever["name"] for lever in document["levers"]]
    rest = ["caps", "peak shaving", "tiers", "tiers", "node caps", "devices", "place"]
    assert names == ["order"] * 2 + ["sleep"] * 3 + rest
    assert document["levers"][-1]["saving"] is None
    assert document["levers"][2]["saving"]["share_pct"]["low"] > 0
    assert document["levers"][2]["saving"]["cycles_per_node_day"] > 0


TARIFF = """
currency = "EUR"
[[energy]]
price = "90EUR/MWh"
hours = "08:00-20:00"
[[energy]]
price = "30EUR/MWh"
hours = "else"
[[demand]]
price = "100EUR/kW"
per = "year"
"""


def levers_by_name(document: Any) -> dict[str, Any]:
    """Return the last policy of each lever."""
    return {lever["name"]: lever for lever in document["levers"]}


def test_a_demand_charge_is_in_the_bill_and_gives_a_row_of_peak_shaving(
    offpeak: Offpeak, sacct: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.toml").write_text(TARIFF)
    options = ("estimate", sacct, "--time-zone", "UTC", "--nodes", "6", "--tariff", "t.toml")
    options += ("--peak-target", "900W", "--peak-wait", "30d")
    document = json.loads(offpeak(*options, "--json").stdout)
    used = document["used"]
    # Two jobs of two nodes overlap for two of three hours: the even ones draw 150 W a node, the odd ones 250 W.
    assert used["demand"]["peak_kw"] == pytest.approx(2 * (0.150 + 0.250) + 2 * 0.075)
    years = (used["until_s"] - used["begin_s"]) / (365 * 86_400)
    assert used["demand"]["cost"] == pytest.approx(100 * used["demand"]["peak_kw"] * years)
    energy = used["energy_kwh"]["middle"] * used["mean_price"] / 1000
    assert used["cost"]["middle"] == pytest.approx(energy + used["demand"]["cost"])
    shaved = levers_by_name(document)["peak shaving"]["saving"]
    assert shaved["policy"] == "peak_target 0.9kW"
    # Three even jobs fit below the target, an odd one beside an even one does not.
    assert shaved["peak_kw"] == pytest.approx(0.95 - 3 * 2 * 0.150)
    assert shaved["wait_change_s"] > 0
    printed = offpeak(*options).stdout
    assert "of it demand charges (0.95 kW at most), the rest for energy" in printed
    assert re.search("^would have saved|^in the replay .* kW ", printed, re.MULTILINE)


def test_demand_and_the_target_of_peak_shaving_have_no_cooling_in_them(
    offpeak: Offpeak, sacct: Path, tmp_path: Path
) -> None:
    """The nodes draw 0.95 kW at most, and half as much again is drawn by cooling."""
    (tmp_path / "t.toml").write_text(TARIFF)
    (tmp_path / "room.csv").write_text("power,0C,30C\n0kW,1.5,1.5\n50kW,1.5,1.5\n")
    (tmp_path / "room.toml").write_text('[plan]\nfacility = "room.csv"\n')
    options = ("--time-zone", "UTC", "--nodes", "6", "--tariff", "t.toml", "--config", "room.toml", "--json")
    document = json.loads(offpeak("estimate", sacct, *options).stdout)
    assert document["used"]["demand"]["peak_kw"] == pytest.approx(0.95)
    assert levers_by_name(document)["peak shaving"]["saving"]["policy"] == "peak_target 0.902kW"


@pytest.mark.parametrize(("per", "is_known"), [("year", False), ("month", True)])
def test_the_last_days_of_a_log_claim_nothing_of_a_yearly_charge(
    offpeak: Offpeak, tmp_path: Path, per: str, is_known: bool
) -> None:
    """All nodes are busy once, before the days that the levers replay: no sleep lowers the peak of the year."""
    times = [(n, 6 if n == 5 else 2, MONDAY + timedelta(days=2 * n)) for n in range(100)]
    jobs = [job(n, start=start, hours=5, nodes=nodes, watts=250.0) for n, nodes, start in times]
    (tmp_path / "log.txt").write_text("\n".join([COLUMNS, *jobs, ""]))
    (tmp_path / "t.toml").write_text(TARIFF.replace("year", per))
    options = ("--time-zone", "UTC", "--nodes", "6", "--tariff", "t.toml", "--json")
    document = json.loads(offpeak("estimate", "log.txt", *options).stdout)
    levers = levers_by_name(document)
    assert document["used"]["demand"]["peak_kw"] == pytest.approx(1.5)
    for name in ("sleep", "tiers"):
        assert (levers[name]["saving"]["peak_kw"] is not None) == is_known
        assert ("no saving of its charge" in levers[name]["note"]) != is_known


def test_levers_that_cannot_be_computed_have_a_line_with_the_reason(
    offpeak: Offpeak, sacct: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text(dump(jobs=1))
    (tmp_path / "rigid.toml").write_text('[flexibility]\nqos = ["flex=delay=12h"]\n')
    (tmp_path / "windows.toml").write_text(TARIFF + '[[demand.window]]\nmonths = "jul"\n')
    cases = {
        (sacct, *BERLIN): {"peak shaving: the prices have no demand charge", "devices: no PV plant or battery"},
        (sacct, "--tariff", "windows.toml"): {"no quarter-hour counts), the rest", "peak shaving: not in every replay"},
        (sacct, "--config", "rigid.toml"): {"tiers: no job of the log has a QOS or partition that [flexibility] lets"},
        ("one.txt", "--tariff", "windows.toml"): {"not significant", "node caps: no cap curve of these nodes"},
    }
    for options, expected in cases.items():
        done = offpeak("estimate", *options, "--nodes", "6")
        assert done.returncode == 0, done.stderr
        assert [line for line in expected if line not in done.stdout] == [], done.stdout
    (tmp_path / "usd.csv").write_text("utc,usd\n2023-01-01 00:00,50\n2023-01-02 00:00,60\n2023-02-01 00:00,60\n")
    (tmp_path / "spot.toml").write_text(TARIFF.replace('price = "90EUR/MWh"', 'price = "spot"'))
    layout = "time=utc,value=usd,unit=USD/MWh,zone=UTC"
    done = offpeak("estimate", sacct, "--prices", "usd.csv", "--price-layout", layout, "--tariff", "spot.toml")
    assert done.returncode != 0
    assert "EUR" in done.stderr
    assert "USD" in done.stderr


def test_caps_on_nodes_are_a_row_where_they_pay_and_name_their_price_where_they_do_not(
    offpeak: Offpeak, sacct: Path, tmp_path: Path
) -> None:
    (tmp_path / "inventory.toml").write_text(
        '[credentials.bmc]\nuser = "a"\npassword_file = "p"\n'
        '[hardware.gpu]\ndriver = "redfish"\ncredential = "bmc"\ncap_by = "bmc"\ncap_curve = "v100"\n'
        '[[machines]]\nnodes = "n[1-6]"\nhardware = "gpu"\nbmc = "10.0.0.[1-6]"\n'
    )
    options = ("estimate", sacct, *BERLIN, "--nodes", "6", "--inventory", "inventory.toml")
    pays = levers_by_name(json.loads(offpeak(*options, "--json").stdout))["node caps"]
    assert pays["saving"]["a_year"]["low"] > 0
    assert pays["saving"]["energy_kwh"] > 0
    assert 0 < pays["saving"]["longer_run"] < 0.35
    assert re.match(r"not worth it below [\d.]+ EUR/MWh; at \d+% of what a busy node draws above idle", pays["note"])
    unknown = tmp_path / "unknown.txt"
    unknown.write_text(dump(watts=None))
    printed = offpeak("estimate", unknown, *options[2:]).stdout
    assert "node caps: the power of busy nodes is not known: --power and --idle-power" in printed


def test_jobs_wait_as_the_site_declares_for_their_partition(offpeak: Offpeak, sacct: Path) -> None:
    options = ("estimate", sacct, "--time-zone", "UTC", "--nodes", "6", "--flexible-partitions", "batch=delay=30h")
    tiers = levers_by_name(json.loads(offpeak(*options, "--json").stdout))["tiers"]
    assert tiers["saving"]["policy"] == "T2, 100% of jobs up to 30h"
    assert tiers["saving"]["a_year"]["low"] > 0
    assert tiers["saving"]["wait_change_s"] > 0


def test_nodes_that_cannot_be_replayed_asleep_leave_their_levers_unmeasured(
    offpeak: Offpeak, sacct: Path, tmp_path: Path
) -> None:
    (tmp_path / "pyss.toml").write_text('[scheduling]\npasses = "event"\n', encoding="utf-8")
    done = offpeak("estimate", sacct, *BERLIN, "--nodes", "6", "--config", "pyss.toml")
    assert done.returncode == 0, done.stderr
    assert "sleep: timeout:10min: nodes that sleep need passes" in done.stdout


def test_what_is_recommended_is_a_settings_file(offpeak: Offpeak, repository: Path, tmp_path: Path) -> None:
    samples = repository / "sim_backend" / "sample"
    prices = samples / "sample_prices_eur_per_mwh.csv.gz"
    log = (samples / "sample_sacct.txt.gz", "--prices", prices, "--time-zone", "Europe/Berlin")
    best = json.loads(offpeak("estimate", *log, "--days", "14", "--json").stdout)["recommended"]
    assert best["saving"]["share_pct"]["low"] > 0
    (tmp_path / "offpeak.toml").write_text(best["settings_toml"], encoding="utf-8")
    settings = Settings.of(read_values(tmp_path / "offpeak.toml"))
    assert (settings.agent.capacity, settings.agent.queue) == (best["capacity"], best["queue"])
    assert (settings.agent.mode, settings.agent.limit_capacity) == ("shadow", best["limit_capacity"])
    check_policy_name(settings.agent.capacity, to_limit=settings.agent.limit_capacity)  # as the agent does at its start
    shown = json.loads(offpeak("show-config", "--config", "offpeak.toml", "--json").stdout)
    assert "offpeak.toml" in shown["agent.capacity"]["origin"]


def test_the_page_tells_those_who_decide_one_number_and_three_charts(
    offpeak: Offpeak, repository: Path, tmp_path: Path, chromium: Browser
) -> None:
    samples = repository / "sim_backend" / "sample"
    log = (samples / "sample_sacct.txt.gz", "--prices", samples / "sample_prices_eur_per_mwh.csv.gz")
    done = offpeak("estimate", *log, "--time-zone", "Europe/Berlin", "--report", "e.html", "--replays", "10")
    assert done.returncode == 0, done.stderr
    page = chromium.new_page(viewport={"width": 375, "height": 800})
    page.goto((tmp_path / "e.html").as_uri())
    assert re.match(r"[\d,]+ EUR a year\n[\d,]+ to [\d,]+ EUR in 19 of 20", page.locator(".hero").inner_text())
    charts = page.locator("section:has(figure) > h2").all_inner_texts()
    # No measure changes the wait, so a chart of equal bars would show nothing.
    assert charts == ["The bill, week by week", "What each measure saves"]
    assert page.locator(".columns [role=listitem]").count() == 12
    # The recommended measure comes first, and the page says why it is not the one that saves most.
    assert "recommended" in page.locator(".rows li").first.inner_text()
    text = page.locator("main").inner_text()
    assert re.search("Another measure would save [\\d.]+ EUR more a year|No other", text)
    assert re.search(r"recommended; [\d.]+ \([\d.]+ to [\d.]+\) % of the electricity bill", text)
    answers = (
        "bill and saving have those that the prices above include",
        "The measures above do not change that significantly.",
        "of the computers are idle on average: a job starts only when",
        "needs no new hardware",
        "lets it watch for a week",
        "a computer with a job is never switched off",
        "One setting, at any time",
        "If all prices rise by a tenth, so does the saving.",
    )
    assert [answer for answer in answers if answer not in text] == []
    shown = page.locator("main > :not(details)").all_inner_texts()
    assert [word for word in ("timeout", "profile:", "T1", "TOML", "not known") if word in " ".join(shown)] == []
    (assumed,) = re.findall("Assumed, and not covered by the ranges: .*", "\n".join(shown))
    assert "watts of idle nodes" in assumed
    assert "--" not in assumed
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True))) == 2
    assert "in reality it waited" in text
    page.close()


def test_the_page_names_the_taxes_and_fees_of_the_tariff(repository: Path) -> None:
    two_prices = parse_tariff("on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00")
    assert (
        tax_text(two_prices) == tax_text(None) == "bill and saving have those that the prices above include, no others"
    )
    whole = site_tariff(str(repository / "docs" / "examples" / "tariff-de.toml"))
    fees = "grid fee, electricity tax, concession fee"
    assert tax_text(whole) == f"bill and saving include {fees}, tax of 19 %"


def test_the_page_knows_no_real_wait_where_the_log_has_no_starts(
    offpeak: Offpeak, repository: Path, tmp_path: Path
) -> None:
    log = repository / "sim_backend" / "sample" / "sample.swf.gz"
    done = offpeak("estimate", log, "--replays", "10", "--report", "e.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "e.html").read_text()
    assert "the log does not say when jobs started" in text
    assert "in reality it waited" not in text


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("timeout:10min", "Switch off computers that have had no work for 10 minutes"),
        ("forecast:1h", "Switch off computers that are hardly needed in the next hour"),
        ("profile:1h:3", "Use fewer computers in the expensive hours"),
        ("T1, 10% of jobs up to 6h", "Let 10 % of the jobs wait up to 6 hours for cheap hours"),
        ("peak_target 300kW", "Keep the power of the cluster below 300 kW"),
        ("greedy+timeout:1h", "Switch off computers that have had no work for an hour, and start jobs"),
    ],
)
def test_measures_have_names_in_words(policy: str, text: str) -> None:
    assert measure_text(policy).startswith(text)


def test_names_can_be_kept_out_of_the_report_and_the_table(offpeak: Offpeak, sacct: Path, tmp_path: Path) -> None:
    open_ = offpeak("simulate", sacct, "--by", "user", "--policy", "easy", "--report", "open.html")
    assert "ada1" in open_.stdout
    done = offpeak("simulate", sacct, "--by", "user", "--anonymise", "--report", "closed.html")
    assert "ada" not in done.stdout
    assert "user1" in done.stdout
    assert "ada1" not in (tmp_path / "closed.html").read_text(encoding="utf-8")


def pbs_day(accounting: Path, day: datetime, number: int) -> None:
    """Write the file of a day on which one job ran for an hour on two nodes."""
    begin = round(day.timestamp())
    attributes = (
        f"user=ada group=physics jobname=solve queue=batch ctime={begin} qtime={begin} etime={begin} "
        f"start={begin + 60} exec_host=n1/0-15+n2/0-15 Resource_List.walltime=02:00:00 end={begin + 3660} "
        "resources_used.walltime=01:00:00"
    )
    line = f"{day:%m/%d/%Y} 01:01:00;E;{number}.head;{attributes}\n"
    (accounting / f"{day:%Y%m%d}").write_text(line, encoding="utf-8")


def test_a_folder_of_pbs_accounting_is_a_log(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "accounting").mkdir()
    for number in range(3):
        pbs_day(tmp_path / "accounting", MONDAY + timedelta(days=number), number)
    document = json.loads(offpeak("estimate", "accounting", *BERLIN, "--json").stdout)
    assert (document["jobs"], document["machine_size"], document["units_per_node"]) == (3, 2, 1)


def test_a_pbs_server_is_read_without_being_named(
    offpeak: Offpeak, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    accounting = tmp_path / "home/server_priv/accounting"
    accounting.mkdir(parents=True)
    today = datetime.now(UTC).replace(hour=1, minute=0, second=0, microsecond=0)
    for age in (120, 2, 1):
        pbs_day(accounting, today - timedelta(days=age), age)
    (tmp_path / "pbs.conf").write_text(f"PBS_HOME={tmp_path / 'home'}\n", encoding="utf-8")
    monkeypatch.setitem(environment, "PATH", str(tmp_path))
    monkeypatch.setitem(environment, "PBS_CONF_FILE", str(tmp_path / "pbs.conf"))
    document = json.loads(offpeak("estimate", "--json").stdout)
    assert (document["jobs"], document["machine_size"]) == (2, 2)


BAD = [
    (COLUMNS + "\n" + job(1, start=MONDAY, hours=0) + "\n", (), "took no time at all", "more days"),
    (f"{COLUMNS}\n{WAITING}\n", (), "no job ran: 1 job: never started", "more days"),
    (COLUMNS + "\n", (), "holds no jobs", "sacct"),
    ("JobIDRaw|User|State\n1|ada|COMPLETED\n", (), "Submit", "sacct -a -D -X -P"),
    (dump().replace("2023-01-02T03:00:00|", "Mo 02 Jan 2023|", 1), (), "Mo 02 Jan 2023", "SLURM_TIME_FORMAT"),
    ("sacct: error: Slurm accounting storage is disabled\n", (), "accounting storage is disabled", ""),
    (dump(), ("--time-zone", "Europe/Berln"), "unknown time zone 'Europe/Berln'", "Europe/Berlin"),
    (dump(), ("--replays", "3"), "--replays", ""),
    (dump(), ("--policy", "easy"), "needs a baseline and another policy", "--policy easy,greedy"),
    (dump(), ("--prices", "p.csv", "--tariff", "x"), "cannot be combined", "the one that your contract uses"),
]


@pytest.mark.parametrize(("text", "options", "message", "hint"), BAD, ids=[case[2] for case in BAD])
def test_bad_input_gets_one_line_and_a_hint(
    offpeak: Offpeak, tmp_path: Path, text: str, options: tuple[str, ...], message: str, hint: str
) -> None:
    (tmp_path / "dump.txt").write_text(text, encoding="utf-8")
    done = offpeak("estimate", "dump.txt", *options)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("offpeak: error: ")
    assert message in first
    assert second.startswith("  hint: ")
    assert hint in second


def test_a_machine_without_a_scheduler_gets_a_hint_what_to_give(
    offpeak: Offpeak, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(environment, "PATH", str(tmp_path))
    done = offpeak("estimate")
    assert done.returncode == 2
    assert "no log is given" in done.stderr
    assert "offpeak estimate sacct.txt" in done.stderr
