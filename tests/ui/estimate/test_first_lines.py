"""The first three lines of an estimate name its prices, its machine and what it assumed, whatever log it is of."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from offpeak.power.capacity.levers import Lever, LeverMeasurement
from offpeak.settings.replay import MachineSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.comparison.likeness import Likeness
from offpeak.sim_backend.estimate import Bounds, CapabilitySaving, SavingsEstimate, estimate_savings
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.read import read_log
from offpeak.ui.estimate.text import LeversAnswer, answer_view, fragment, verdict
from offpeak.ui.replay.likeness import NOT_CLAIMED
from offpeak.ui.terminal import plain_console

Offpeak = Callable[..., subprocess.CompletedProcess[str]]

SAMPLES = ("sample.swf.gz", "sample_sacct.txt.gz")
SHARED = (
    "traces/*.swf.gz",
    "modern/gaia/*.swf.gz",
    "captures/slurm/*/sacct_P.txt",
    "captures/slurm/*/jobcomp.log",
    "captures/openpbs/G_accounting.txt",
    "captures/torque/**/*accounting.txt",
)
JOBS = 300
"""So many of a log's first jobs tell what its first lines are."""

LARGE = 1_000_000
"""The first jobs of a log of more bytes take a second to come by."""

ASSUMED_PRICES = (
    "prices   90 EUR/MWh from 09:00 to 23:00 every day, clock of {zone}, else 30 EUR/MWh"
    " (assumed, as no prices are given: --prices FILE or --tariff RULE{more})"
)
NO_DATE = "; log without a date mapped to a Monday, 2024-01-01"
NO_ZONE = "; UTC assumed, as the log names no time zone: --time-zone ZONE"
MACHINE = re.compile(
    r"machine  [\d,]+ nodes? of [\d,]+ processors?; a busy one draws [\d,]+( to [\d,]+)? W( \(.+\))?,"
    r" an idle one [\d,]+ W; [\d.,]+ [kM]?W when all are busy(; assumed: .+)?"
)


def begun(source: Path, settings: Settings) -> SavingsEstimate:
    """Return the estimate of the first jobs of a log."""
    trace = read_log(str(source), lenient=True, zone=UTC)
    if trace.processors is None and trace.nodes is None and trace.units_per_node is None:
        settings = replace(settings, machine=MachineSettings(nodes=int(trace.jobs.size.max())))
    head = replace(trace, jobs=trace.jobs.take(np.arange(min(JOBS, len(trace.jobs)))))
    policies = tuple(parse_policy(name, settings.scheduling) for name in ("easy", "greedy"))
    return estimate_savings(head, settings, policies, days=None, replays=1)


def check_first_lines(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate = begun(source, Settings())
    plain_console().print(answer_view(LeversAnswer(estimate, (), None, Settings())))
    assumed, first, prices, machine, *_ = capsys.readouterr().out.splitlines()
    assert assumed.startswith("No prices are given: the amounts below are for an assumed tariff, on=90EUR/MWh,")
    assert first.startswith(estimate.trace.name)
    zone = estimate.trace.time_zone
    more = NO_DATE if estimate.trace.unix_start_s is None else "" if zone else NO_ZONE
    assert prices == ASSUMED_PRICES.format(zone=zone or "UTC", more=more)
    is_started = "no start is logged" not in first
    assert is_started == ("the log does not say when jobs started: easy does, replayed" not in estimate.trace.notes)
    assert MACHINE.fullmatch(machine), machine
    assert "watts of idle nodes (--idle-power)" in machine.partition("; assumed: ")[2]
    is_measured = "(measured in the log, on average)" in machine
    assert ("watts of busy nodes (--power)" in machine) != is_measured
    used = estimate.used
    assert 0 < used.utilization <= 1
    assert used.idle_energy_kwh >= 0


@pytest.mark.parametrize("name", SAMPLES)
def test_of_each_bundled_log(repository: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_first_lines(repository / "sim_backend" / "sample" / name, capsys)


def test_every_bundled_log_is_tested(repository: Path) -> None:
    bundled = {path.name for path in (repository / "sim_backend" / "sample").iterdir()}
    assert {name for name in bundled if "prices" not in name} == set(SAMPLES)


@pytest.mark.parametrize("pattern", SHARED)
def test_of_each_shared_log(shared: Path, pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [log for log in sorted((shared / "data").glob(pattern)) if log.stat().st_size < LARGE]
    assert logs
    for log in logs:
        check_first_lines(log, capsys)


def lines_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return lines[1:4] if lines[0].startswith("No prices are given") else lines[:3]


def swf(*jobs: tuple[int, int, int, int, int], header: str) -> str:
    """Return a log of jobs of submission, wait, run time, used and requested processors."""
    lines = [
        f"{number} {submit} {wait} {run} {used} -1 -1 {requested} {run} -1 1 {number % 5} 1 -1 1 -1 -1 -1"
        for number, (submit, wait, run, used, requested) in enumerate(jobs, 1)
    ]
    return "\n".join([f"; UnixStartTime: 1672617600\n{header}", *lines, ""])


HOURS = [(3600 * hour, 0, 7200, 24, 24) for hour in range(99)]


def test_declared_value_is_not_called_assumed(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60\n; MaxNodes: 15"), encoding="utf-8")
    tariff = "on=0.3EUR/kWh,off=0.2EUR/kWh,hours=06:00-22:00,days=mon-fri"
    watts = ("--power", "constant:400W", "--idle-power", "75W")
    _, prices, machine = lines_of(offpeak("estimate", "log.swf", "--tariff", tariff, *watts, "--replays", "10"))
    assert prices == (
        "prices   300 EUR/MWh from 06:00 to 22:00 mon-fri, clock of UTC, else 200 EUR/MWh"
        " (UTC assumed, as the log names no time zone: --time-zone ZONE)"
    )
    for clock in ((f"{tariff},zone=Europe/Berlin",), (tariff, "--time-zone", "Europe/Berlin")):
        _, prices, _ = lines_of(offpeak("estimate", "log.swf", "--tariff", *clock, *watts, "--replays", "10"))
        assert prices == "prices   300 EUR/MWh from 06:00 to 22:00 mon-fri, clock of Europe/Berlin, else 200 EUR/MWh"
    assert machine == (
        "machine  15 nodes of 4 processors; a busy one draws 400 W (constant:400W), an idle one 75 W;"
        " 6,000 W when all are busy"
    )


def test_processors_are_priced_as_the_nodes_of_the_header(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60\n; MaxNodes: 15"), encoding="utf-8")
    done = offpeak("estimate", "log.swf", "--power", "constant:400W", "--json", "--replays", "10")
    document = json.loads(done.stdout)
    busy_h, hours = 24 * 2 * 99, 100
    used = document["used"]
    assert used["energy_kwh"]["middle"] == pytest.approx(0.1 * busy_h + 0.075 / 4 * (60 * hours - busy_h))
    assert document["machine"] == {
        "nodes": 15,
        "processors_per_node": 4,
        "busy_node_lowest_w": pytest.approx(400),
        "busy_node_highest_w": pytest.approx(400),
        "idle_node_w": 75,
        "assumed": ["watts of idle nodes (--idle-power)"],
    }
    assert document["prices_in_words"] == "90 EUR/MWh from 09:00 to 23:00 every day, clock of UTC, else 30 EUR/MWh"
    assert document["prices_assumed"] == f"assumed, as no prices are given: --prices FILE or --tariff RULE{NO_ZONE}"


def test_a_log_that_is_fuller_than_its_machine_gets_one_that_holds_it(offpeak: Offpeak, tmp_path: Path) -> None:
    jobs = [(3600 * hour, 0, 3 * 3600, 30, 30) for hour in range(50)]
    (tmp_path / "full.swf").write_text(swf(*jobs, header="; MaxProcs: 60\n; MaxNodes: 15"), encoding="utf-8")
    done = offpeak("estimate", "full.swf", "--replays", "10")
    _, _, machine = lines_of(done)
    assert machine.startswith("machine  23 nodes of 4 processors; ")
    assert "assumed: nodes, as 90 processors were in use at once where its header says 60; " in machine
    assert "-" not in re.search(r"used .*", done.stdout)[0]
    load = float(re.search(r"load +([\d.]+) %", done.stdout)[1])
    assert load == pytest.approx(100 * 30 * 3 * 50 / (92 * 52), abs=0.1)
    assert "load     9" in offpeak("estimate", "full.swf", "--nodes", "40", "--replays", "10").stdout
    replayed = offpeak("simulate", "full.swf").stdout
    assert "90 processors were in use at once where its header says 60; replays hold 60" in replayed


def test_what_happened_counts_the_processors_that_were_used(offpeak: Offpeak, tmp_path: Path) -> None:
    jobs = [(submit, wait, run, 6, requested) for submit, wait, run, _, requested in HOURS]
    (tmp_path / "log.swf").write_text(swf(*jobs, header="; MaxProcs: 60\n; MaxNodes: 60"), encoding="utf-8")
    done = offpeak("estimate", "log.swf", "--power", "constant:400W", "--replays", "10")
    load = 100 * 6 * 2 * 99 / (60 * 100)
    assert f"load     {load:.1f} % of the machine" in done.stdout
    assert "- 99 jobs used more or fewer processors than asked: what happened is counted with those used" in done.stdout


def test_a_log_of_21_columns_is_read_by_its_first_18(offpeak: Offpeak, tmp_path: Path) -> None:
    text = swf(*HOURS, header="; MaxProcs: 60\n; MaxNodes: 15")
    wide = "\n".join(line if line.startswith(";") or not line else f"{line} ocean 3 -1" for line in text.splitlines())
    (tmp_path / "log.swf").write_text(text, encoding="utf-8")
    (tmp_path / "wide.swf").write_text(wide, encoding="utf-8")
    plain, wide_ = (offpeak("estimate", name, "--replays", "10").stdout for name in ("log.swf", "wide.swf"))
    note = "- 21 columns: those after the 18th are not part of SWF and are ignored\n"
    assert wide_.replace(note, "").replace("\nwide,", "\nlog,") == plain
    assert note in wide_


def test_simulate_and_its_report_name_them_too(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60"), encoding="utf-8")
    tariff = "on=90EUR/MWh,off=30EUR/MWh"
    done = offpeak("simulate", "log.swf", "--tariff", tariff, "--report", "report.html", "--anonymise")
    first, prices, machine = lines_of(done)
    assert first == "log: 99 jobs on 60 nodes, 4 d 4 h"
    assert prices == (
        "prices   90 EUR/MWh from 09:00 to 23:00 every day, clock of UTC, else 30 EUR/MWh"
        f" (hours=09:00-23:00 assumed: none are given{NO_ZONE})"
    )
    assert MACHINE.fullmatch(machine)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert prices.removeprefix("prices   ") in page
    assert machine.removeprefix("machine  ") in page
    document = json.loads(offpeak("simulate", "log.swf", "--json").stdout)
    assert document["prices_assumed"]
    assert document["machine"]["nodes"] == 60


@pytest.mark.parametrize("options", [(), ("--tariff", "on=90EUR/MWh,off=30EUR/MWh"), ("--prices", "p_eur_per_mwh.csv")])
def test_simulate_names_its_prices_once(offpeak: Offpeak, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60"), encoding="utf-8")
    rows = "".join(f"2023-01-{day:02}T{hour:02}:00Z,{hour}\n" for day in range(1, 9) for hour in range(24))
    (tmp_path / "p_eur_per_mwh.csv").write_text("utc,price\n" + rows, encoding="utf-8")
    done = offpeak("simulate", "log.swf", *options)
    assert "EUR/MWh" in lines_of(done)[1]
    counts = [
        done.stdout.count(each)
        for each in (
            "EUR/MWh from",
            "no prices are given",
            "p_eur_per_mwh.csv",
            "09:00-23:00",
            "mapped to its own dates",
        )
    ]
    assert counts == {0: [1, 1, 0, 0, 1], "--tariff": [1, 0, 0, 1, 1], "--prices": [0, 0, 1, 0, 1]}[[*options, 0][0]]


def test_prices_of_a_file_are_named_with_how_they_were_laid(repository: Path) -> None:
    samples = repository / "sim_backend" / "sample"
    prices = PriceSettings(file=samples / "sample_prices_eur_per_mwh.csv.gz")
    basis = begun(samples / "sample.swf.gz", Settings(prices=prices)).prepared.basis
    assert basis.prices.startswith(
        "sample_prices_eur_per_mwh.csv.gz, column price in EUR/MWh; log mapped to its own dates"
    )
    assert basis.prices_assumed == ""


def test_impossible_value_is_one_line_with_file_line_and_value(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60"), encoding="utf-8")
    (tmp_path / "p_eur_per_mwh.csv").write_text(
        "utc,price\n2023-01-02T00:00Z,90\n2023-01-02T01:00Z,1e308\n", encoding="utf-8"
    )
    (tmp_path / "site.toml").write_text('[prices]\ntariff = "on=1e308EUR/MWh,off=1EUR/MWh"\n', encoding="utf-8")
    for options, message in (
        (("--prices", "p_eur_per_mwh.csv"), "p_eur_per_mwh.csv:3: 1e+308 EUR/MWh is not a plausible price"),
        (("--config", "site.toml"), "site.toml:2: prices.tariff: '1e308EUR/MWh' is not a plausible price"),
        (("--tariff", "on=9e9EUR/MWh,off=1EUR/MWh"), "--tariff: prices.tariff: '9e9EUR/MWh' is not a plausible price"),
        (("--power", "constant:1e308W"), "'1e308W' is more than 100 GW"),
        (("--idle-power", "5MW"), "--idle-power: power.idle: '5MW' is more than 1 MW"),
        (("--carbon", "1e300g/kWh"), "'1e300g/kWh' is more than 10 kg/kWh"),
    ):
        done = offpeak("estimate", "log.swf", *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 2


def test_a_carbon_file_with_two_intensities_asks_which(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60"), encoding="utf-8")
    rows = "".join(f"2023-01-{day:02} {hour:02}:00:00,100,200\n" for day in range(1, 9) for hour in range(24))
    names = "Datetime (UTC),Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle)\n"
    (tmp_path / "maps.csv").write_text(names + rows, encoding="utf-8")
    done = offpeak("estimate", "log.swf", "--carbon", "maps.csv")
    assert done.returncode == 2
    assert "maps.csv:1: holds more than one carbon intensity" in done.stderr
    power = ("--power", "constant:400W", "--replays", "10", "--json")
    direct, whole = (
        json.loads(offpeak("estimate", "log.swf", "--carbon", f"maps.csv,value={which}", *power).stdout)["used"][
            "co2_kg"
        ]
        for which in ("direct", "life cycle")
    )
    assert whole == pytest.approx(2 * direct)
    assert direct > 0


def test_a_log_without_starts_claims_no_likeness_and_names_its_date(offpeak: Offpeak, tmp_path: Path) -> None:
    jobs = [(submit, -1, run, used, requested) for submit, _, run, used, requested in HOURS]
    text = swf(*jobs, header="; MaxProcs: 60").replace("; UnixStartTime: 1672617600\n", "")
    (tmp_path / "log.swf").write_text(text, encoding="utf-8")
    done = offpeak("estimate", "log.swf", "--replays", "10")
    first, prices, _ = lines_of(done)
    assert first.endswith("99 jobs on 60 nodes, started as easy starts them: no start is logged")
    assert prices.endswith("; log without a date mapped to a Monday, 2024-01-01)")
    assert "the replay cannot be compared with the cluster" in done.stdout
    assert "the replay is close to the log" not in done.stdout


UNLIKE = "the replay is not close to the log: jobs wait 0 s on average under easy, in the log "


@pytest.mark.parametrize(
    ("wait_s", "unlike"),
    [(7200, UNLIKE), (59, ""), (0, ""), (-1, "")],
    ids=["far", "near", "no waits logged", "no start logged"],
)
def test_a_replay_that_is_far_from_the_log_is_reported(
    offpeak: Offpeak, tmp_path: Path, wait_s: int, unlike: str
) -> None:
    jobs = [(submit, wait_s, run, 6, 6) for submit, _, run, _, _ in HOURS]
    (tmp_path / "log.swf").write_text(swf(*jobs, header="; MaxProcs: 60"), encoding="utf-8")
    for arguments in (("estimate", "--replays", "10"), ("simulate", "--report", "r.html")):
        done = offpeak(arguments[0], "log.swf", *arguments[1:])
        remarks = [line for line in done.stdout.splitlines() if line.startswith("- ")]
        assert remarks[0].startswith(f"- {unlike}") if unlike else "the replay is not near" not in done.stdout
        notes = json.loads(offpeak(arguments[0], "log.swf", *arguments[1:], "--json").stdout)["notes"]
        assert any(note.startswith(unlike) for note in notes) if unlike else "is not near" not in str(notes)
        assert "the replay is close to the log" not in done.stdout or not unlike
    assert (unlike in (tmp_path / "r.html").read_text(encoding="utf-8")) or not unlike


def test_the_logs_waits_count_of_the_jobs_that_started_in_both(repository: Path) -> None:
    comparison = begun(repository / "sim_backend" / "sample" / "sample.swf.gz", Settings()).comparison
    jobs = comparison.case.jobs
    logged_s, replayed_s = comparison.mean_waits_s()
    assert logged_s == pytest.approx(float((jobs.logged_start_s - jobs.submit_s).mean()))
    assert replayed_s == comparison.outcomes[0].mean_wait_s
    half = replace(jobs, logged_start_s=np.where(np.arange(len(jobs)) % 2, jobs.logged_start_s, -1))
    some = replace(comparison, case=replace(comparison.case, jobs=half)).mean_waits_s()
    assert some[0] == pytest.approx(float((jobs.logged_start_s - jobs.submit_s)[1::2].mean()))
    unknown = replace(jobs, logged_start_s=np.full(len(jobs), -1))
    assert replace(comparison, case=replace(comparison.case, jobs=unknown)).mean_waits_s() is None


def test_energy_without_a_price_is_named_beside_the_money(offpeak: Offpeak, tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf(*HOURS, header="; MaxProcs: 60"), encoding="utf-8")
    hours = [(day, hour) for day in range(1, 9) for hour in range(24)]
    paid = {}
    for name, gap in (("gap", 3), ("whole", 0)):
        rows = [f"2023-01-{day:02}T{hour:02}:00Z,{'' if day == gap else '90'}" for day, hour in hours]
        (tmp_path / f"{name}_eur_per_mwh.csv").write_text("\n".join(["utc,price", *rows, ""]), encoding="utf-8")
        options = ("--prices", f"{name}_eur_per_mwh.csv", "--power", "constant:400W", "--replays", "10")
        paid[name] = re.search(r"paid .*", offpeak("estimate", "log.swf", *options).stdout)[0]
    assert re.search(r"; 2\d\.\d % of the energy has no price and is not in it$", paid["gap"])
    assert "has no price" not in paid["whole"]


def bounds(middle: float) -> Bounds:
    return Bounds(middle - 0.1, middle, middle + 0.1)


def answer_of(repository: Path, *savings: CapabilitySaving, order: float = 0.9) -> LeversAnswer:
    """Return an answer with these savings whose replay starts jobs as nearly in the order of the log."""
    estimate = begun(repository / "sim_backend" / "sample" / "sample.swf.gz", Settings())
    estimate = replace(estimate, savings=savings, likeness=Likeness(100.0, 100.0, order, ()))
    replays = LeverMeasurement(estimate, Settings(), ())
    levers = tuple(Lever(saving.capability, saving) for saving in savings)
    return LeversAnswer(estimate, levers, replays.recommend(levers), Settings())


def saving_of(policy: str, share: float, *, is_noise: bool = False, wait_s: float = 0.0) -> CapabilitySaving:
    lever = "order" if policy in {"greedy", "knapsack"} else "sleep"
    return CapabilitySaving(lever, policy, bounds(share), bounds(share), wait_s, False, is_noise)


@pytest.mark.parametrize(
    ("savings", "sentence"),
    [
        ([saving_of("greedy", -2.0, is_noise=True), saving_of("knapsack", -5.7)], "No saving is significant here"),
        ([saving_of("greedy", 0.9, is_noise=True), saving_of("knapsack", 0.6)], "knapsack would have saved 0.60 (0.50"),
        ([saving_of("greedy", 0.3), saving_of("knapsack", 0.1)], "greedy hardly pays: it would have saved 0.30 (0.20"),
        (
            [saving_of("timeout:5min", 6.0, wait_s=601)],
            "No saving is significant here with acceptable side effects",
        ),
        ([saving_of("forecast:1h", 6.1), saving_of("timeout:10min", 6.0)], "timeout:10min would have saved 6.00"),
        ([saving_of("forecast:1h", 6.5), saving_of("timeout:10min", 6.0)], "forecast:1h would have saved 6.50"),
    ],
)
def test_what_is_recommended_pays_and_does_no_harm(
    repository: Path, savings: list[CapabilitySaving], sentence: str
) -> None:
    assert verdict(answer_of(repository, *savings)).startswith(sentence)


def test_a_saving_is_claimed_only_where_the_replay_is_near(repository: Path) -> None:
    near, far = (answer_of(repository, saving_of("greedy", 5.0), order=order) for order in (0.9, 0.5))
    assert verdict(near).startswith("greedy would have saved 5.00 (4.90 to 5.10) % of the bill")
    assert 'queue = "greedy"' in fragment(near)
    assert (verdict(far), fragment(far)) == (NOT_CLAIMED, "")
