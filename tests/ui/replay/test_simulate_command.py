"""`offpeak simulate` as its users meet it: what it answers, and in which form."""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES, SAMPLE_SACCT
from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak.ui.replay.comparison import SHOWN_ROWS
from offpeak_studies.workloads.generate import lublin_jobs

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]

POLICY_KEYS = {
    "policy",
    "jobs",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "utilization",
    "makespan_s",
    "energy_kwh",
    "cost",
    "currency",
    "co2_kg",
    "simulate_s",
}
JOB = "{job} {submit} 0 {run} {size} -1 -1 {size} {estimate} -1 1 {user} -1 -1 -1 -1 -1 -1"


def log_text(*, jobs: int = 20, run: int = 3600, size: int = 4, every: int = 10, header: str = "; MaxProcs: 8") -> str:
    lines = [
        JOB.format(job=1 + job, submit=every * job, run=run, size=size, estimate=7200, user=job % 3)
        for job in range(jobs)
    ]
    return "\n".join([header, *lines, ""])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(log_text(), encoding="utf-8")
    return path


def answer(done: Done) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.quick
def test_json_has_the_figures_of_every_policy(offpeak: Offpeak) -> None:
    document = answer(offpeak("simulate", SAMPLE_LOG, "--prices", SAMPLE_PRICES, "--carbon", "400g/kWh", "--json"))
    assert [policy["policy"] for policy in document["policies"]] == ["easy", "greedy", "knapsack"]
    for policy in document["policies"]:
        assert policy.keys() >= POLICY_KEYS
        assert policy["jobs"] == 4500
        assert policy["currency"] == "EUR"
        assert policy["co2_kg"] == pytest.approx(policy["energy_kwh"] * 0.4)
        assert 0.5 < policy["utilization"] < 1
    assert document["machine_size"] == 128
    assert document["prices"] == f"{SAMPLE_PRICES.name}, column price"
    assert (document["rejected"], document["skipped_lines"]) == ([], 0)
    assert document["notes"] == ["log mapped to its own dates, from 2023-04-03", "power of jobs: measured in the log"]


@pytest.mark.quick
def test_without_carbon_its_json_is_null(offpeak: Offpeak, log: Path) -> None:
    assert answer(offpeak("simulate", log, "--policy", "easy", "--json"))["policies"][0]["co2_kg"] is None


@pytest.mark.quick
def test_policies_are_given_with_commas_or_one_by_one(offpeak: Offpeak, log: Path) -> None:
    done = offpeak("simulate", log, "--policy", "fcfs, easy", "--policy", "fcfs+greedy", "--json")
    assert [policy["policy"] for policy in answer(done)["policies"]] == ["fcfs", "easy", "fcfs+greedy"]


@pytest.mark.quick
def test_one_policy_writes_the_requested_schedule(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    done = offpeak("simulate", log, "--policy", "easy", "--schedule", "my.schedule")
    assert done.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"log.swf", "my.schedule"}
    lines = (tmp_path / "my.schedule").read_text(encoding="utf-8").splitlines()
    assert lines[:4] == ["job_id,start_s,end_s", "1,0,3600", "2,10,3610", "3,3600,7200"]
    assert len(lines) == 21


@pytest.mark.quick
def test_several_policies_write_a_schedule_each(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    assert offpeak("simulate", log, "--policy", "easy,greedy", "--schedule", "OUT.csv").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"log.swf", "OUT.easy.csv", "OUT.greedy.csv"}


@pytest.mark.quick
def test_schedules_are_in_the_order_of_submission_with_the_logs_numbers(offpeak: Offpeak, tmp_path: Path) -> None:
    lines = log_text(jobs=3).splitlines()
    done = offpeak(
        "simulate", "-", "--policy", "easy", "--schedule", "s.csv", stdin="\n".join([lines[0], *lines[:0:-1]]).encode()
    )
    assert done.returncode == 0
    schedule = (tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in schedule[1:]] == ["1", "2", "3"]


@pytest.mark.quick
def test_breakdowns_in_json_sum_to_the_policy(offpeak: Offpeak, log: Path) -> None:
    document = answer(offpeak("simulate", log, "--by", "class,user,day", "--policy", "easy,greedy", "--json"))
    for policy in document["policies"]:
        for kind in ("class", "user", "day"):
            assert sum(row["jobs"] for row in policy[f"by_{kind}"]) == 20
        assert sum(row["cost"] for row in policy["by_day"]) == pytest.approx(policy["cost"])
        of_jobs = sum(row["energy_kwh"] for row in policy["by_class"])
        assert of_jobs == pytest.approx(policy["energy_kwh"] - policy["idle_energy_kwh"])


@pytest.mark.quick
def test_breakdowns_in_the_table(offpeak: Offpeak) -> None:
    done = offpeak("simulate", SAMPLE_LOG, "--by", "class,user", "--policy", "easy,fcfs")
    titles = [line for line in done.stdout.splitlines() if re.fullmatch(r"\w+ by \w+", line)]
    assert titles == ["easy by class", "fcfs by class", "easy by user", "fcfs by user"]
    assert f"... and {100 - SHOWN_ROWS} more: --json has them all" in done.stdout


@pytest.mark.quick
def test_nodes_and_processors_per_node(offpeak: Offpeak, log: Path) -> None:
    sized = ("simulate", log, "--policy", "easy", "--json", "--processors-per-node", "2")
    assert answer(offpeak(*sized))["machine_size"] == 4
    assert answer(offpeak(*sized, "--nodes", "7"))["machine_size"] == 3


@pytest.mark.quick
def test_the_bill_of_a_tariff_by_hand(offpeak: Offpeak, log: Path) -> None:
    """Ten hours of 8 nodes at 200 W, from Monday midnight: nine at 30, one and a tenth of idle at 90 EUR/MWh."""
    tariff = "on=0.09EUR/kWh,off=30EUR/MWh,hours=09:00-17:00,days=mon-fri,zone=Europe/Berlin"
    options = ("--tariff", tariff, "--power", "constant:200W", "--idle-power", "0W", "--policy", "easy", "--json")
    (policy,) = answer(offpeak("simulate", log, *options))["policies"]
    assert policy["energy_kwh"] == pytest.approx(16)
    # Every second job of the pairs runs ten seconds later: 4 nodes move ten seconds of work over 09:00.
    assert policy["cost"] == pytest.approx((1.6 * 9 * 30 + 1.6 * 90 + 0.8 * 10 / 3600 * (90 - 30)) / 1000, rel=1e-3)


@pytest.mark.quick
@pytest.mark.parametrize(
    "power", ["constant:250W", "uniform:0.1kW-0.3kW", "classes:100W,200W,300W", "file:power.csv", None]
)
def test_every_kind_of_power(offpeak: Offpeak, log: Path, tmp_path: Path, power: str | None) -> None:
    rows = "".join(f"{user},{100 + user}\n" for user in range(3))
    (tmp_path / "power.csv").write_text("user,watts_per_node\n" + rows, encoding="utf-8")
    options = () if power is None else ("--power", power)
    (policy,) = answer(offpeak("simulate", log, "--policy", "easy", "--json", *options))["policies"]
    assert 80 * 0.1 * 0.99 <= policy["energy_kwh"] <= 80 * 0.3 * 1.01


@pytest.mark.quick
def test_carbon_from_a_file(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    rows = "".join(f"2021-01-{day:02}T{hour:02}:00Z,500\n" for day in range(1, 32) for hour in range(24))
    (tmp_path / "c_g_per_kwh.csv").write_text("utc,direct\n" + rows, encoding="utf-8")
    document = answer(offpeak("simulate", log, "--carbon", "c_g_per_kwh.csv", "--policy", "easy", "--json"))
    (policy,) = document["policies"]
    assert policy["co2_kg"] == pytest.approx(policy["energy_kwh"] / 2)
    assert document["notes"][1].startswith("carbon intensity: log of 2024-01-01 mapped to 2021-01-0")


@pytest.mark.quick
def test_the_order_by_co2_emits_less_than_the_order_by_price(offpeak: Offpeak, tmp_path: Path) -> None:
    # CO2 is high when the tariff is low.
    rows = "".join(
        f"2024-01-{day:02}T{hour:02}:00Z,{100 if 9 <= hour < 23 else 600}\n"
        for day in range(1, 32)
        for hour in range(24)
    )
    (tmp_path / "c_g_per_kwh.csv").write_text("utc,direct\n" + rows, encoding="utf-8")
    options = ("--carbon", "c_g_per_kwh.csv", "--policy", "greedy", "--json")
    by_price, by_co2 = (
        answer(offpeak("simulate", SAMPLE_LOG, *options, "--decide-by", by))["policies"][0] for by in ("price", "co2")
    )
    assert by_co2["co2_kg"] < by_price["co2_kg"]
    assert by_co2["cost"] > by_price["cost"]


@pytest.mark.quick
def test_malformed_lines_are_skipped_and_counted_when_lenient(offpeak: Offpeak, log: Path) -> None:
    log.write_text(log_text() + "1 2 3\n", encoding="utf-8")
    done = offpeak("simulate", log, "--lenient", "--policy", "easy")
    assert done.returncode == 0
    assert "- malformed lines skipped: 1\n" in done.stdout


@pytest.mark.quick
def test_start_lays_the_log_on_a_date(offpeak: Offpeak, log: Path) -> None:
    options = ("--prices", SAMPLE_PRICES, "--start", "2023-02-01", "--policy", "easy", "--json")
    document = answer(offpeak("simulate", log, *options))
    assert document["notes"][0] == "log mapped to 2023-02-01 as asked"
    assert document["unix_offset_s"] == 1_675_209_600


@pytest.mark.quick
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_log_may_be_piped_in(offpeak: Offpeak, compress: Callable[[bytes], bytes]) -> None:
    done = offpeak("simulate", "-", "--policy", "easy", stdin=compress(log_text().encode()))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("standard input: 20 jobs on 8 nodes, 10 h\n")


@pytest.mark.quick
def test_settings_come_from_the_file_and_options_win(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    text = '[scheduling]\npolicies = ["fcfs"]\n[machine]\nnodes = 16\n'
    (tmp_path / "site.toml").write_text(text, encoding="utf-8")
    document = answer(offpeak("simulate", log, "--config", "site.toml", "--nodes", "12", "--json"))
    assert [policy["policy"] for policy in document["policies"]] == ["fcfs"]
    assert document["machine_size"] == 12


@pytest.mark.quick
def test_a_tariff_on_the_command_line_replaces_the_files_prices(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('[prices]\nfile = "absent_eur_per_mwh.csv"\n', encoding="utf-8")
    tariff = "on=1USD/MWh,off=1USD/MWh,hours=00:00-24:00"
    document = answer(offpeak("simulate", log, "--config", "site.toml", "--tariff", tariff, "--json"))
    assert document["prices"] == tariff


@pytest.mark.quick
def test_prices_that_end_before_the_log_are_repeated_with_a_note(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    rows = "".join(f"2023-01-{day:02}T{hour:02}:00Z,{hour}\n" for day in (2, 3) for hour in range(24))
    (tmp_path / "p_eur_per_mwh.csv").write_text("utc,price\n" + rows, encoding="utf-8")
    log.write_text(log_text(jobs=200), encoding="utf-8")
    for options in ((), ("--json",)):
        done = offpeak("simulate", log, "--prices", "p_eur_per_mwh.csv", "--policy", "easy", *options)
        assert done.returncode == 0
        assert "prices end 2023-01-04, from there the last 2 days are repeated" in done.stdout


@pytest.mark.quick
def test_gaps_are_reported_and_filled_on_request(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    days = [(day, hour) for day in range(2, 17) for hour in range(24)]
    rows = "".join(f"2023-01-{day:02}T{hour:02}:00Z,{'' if (day, hour) == (9, 3) else 50}\n" for day, hour in days)
    (tmp_path / "p_eur_per_mwh.csv").write_text("utc,price\n" + rows, encoding="utf-8")
    options = ("simulate", log, "--prices", "p_eur_per_mwh.csv", "--start", "2023-01-09", "--power", "constant:200W")
    output = offpeak(*options).stdout
    gap = re.search(r"- ([\d.]+) % of the energy fell into gaps of the prices", output)
    assert gap is not None
    assert 9 < float(gap[1]) < 11
    assert "not in the cost; --fill-gaps fills them" in output
    filled = offpeak(*options, "--fill-gaps").stdout
    assert "into gaps" not in filled
    assert "1 h of gaps filled from the same hour of the latest known week before each" in filled


@pytest.mark.quick
def test_gaps_that_cannot_be_filled_are_reported(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    rows = "".join(f"2023-01-02T{hour:02}:00Z,{'' if hour == 0 else 50}\n" for hour in range(24))
    (tmp_path / "p_eur_per_mwh.csv").write_text("utc,price\n" + rows, encoding="utf-8")
    options = (log, "--prices", "p_eur_per_mwh.csv", "--power", "constant:200W", "--fill-gaps")
    for command in ("simulate", "estimate"):
        output = offpeak(command, *options).stdout
        assert "--fill-gaps found no earlier week with a price for them" in output
        assert "--fill-gaps fills" not in output


@pytest.mark.quick
def test_written_files_are_named_in_one_line(offpeak: Offpeak, log: Path) -> None:
    files = ("--report", "r.html", "--schedule", "out.csv")
    line = "written: out.easy.csv, out.greedy.csv, r.html\n"
    plain, as_json = (offpeak("simulate", log, "--policy", "easy,greedy", *files, *more) for more in ((), ("--json",)))
    assert (plain.stdout.endswith(line), plain.stderr) == (True, "")
    assert as_json.stderr == line
    assert json.loads(as_json.stdout)["log"] == "log"
    straight = offpeak("simulate", log, "--policy", "easy", "--schedule", "/dev/stdout", "--report", "r.html")
    assert straight.stderr == "written: r.html\n"
    assert "written" not in offpeak("simulate", log).stdout


@pytest.mark.quick
def test_the_energy_of_a_small_log_is_not_nothing(offpeak: Offpeak, log: Path, tmp_path: Path) -> None:
    log.write_text(log_text(jobs=3), encoding="utf-8")
    options = (
        "--power",
        "constant:200W",
        "--carbon",
        "400g/kWh",
        "--policy",
        "easy",
        "--by",
        "user",
        "--report",
        "r.html",
    )
    done = offpeak("simulate", log, *options)
    figures = json.loads(offpeak("simulate", log, *options, "--json").stdout)["policies"][0]
    assert 1 < figures["energy_kwh"] < 100
    header = next(line for line in done.stdout.splitlines() if line.startswith("policy"))
    assert "energy kWh" in header
    assert "CO2 kg" in header
    assert f" {figures['energy_kwh']:.2f} " in done.stdout
    assert f" {figures['co2_kg']:.2f}\n" in done.stdout
    assert "energy kWh" in (tmp_path / "r.html").read_text(encoding="utf-8")
    groups = done.stdout.partition("easy by user")[2].splitlines()
    assert all(float(line.split()[4]) > 0 for line in groups[2:-1])


@pytest.mark.quick
def test_one_of_each_is_in_the_singular(offpeak: Offpeak, log: Path) -> None:
    wide = JOB.format(job=99, submit=0, run=60, size=3, estimate=-1, user=1)
    log.write_text(log_text(jobs=1, size=1, header="; MaxProcs: 1") + wide + "\n", encoding="utf-8")
    lines = offpeak("simulate", log, "--policy", "easy").stdout.splitlines()
    assert lines[0].startswith("log: 1 job on 1 node, 1 h")
    assert "- 1 job without an estimate: the run time is used" in lines
    assert "- left out: 1 job, wider than the machine (1) (job 99)" in lines


@pytest.mark.quick
def test_two_thousand_jobs_of_one_second_no_run_time_and_a_very_long_one(offpeak: Offpeak) -> None:
    for text in (
        log_text(jobs=2000, every=0),
        log_text(jobs=5, run=0),
        log_text(jobs=5) + JOB.format(job=6, submit=50, run=2**31, size=8, estimate=60, user=1) + "\n",
    ):
        document = answer(offpeak("simulate", "-", "--policy", "greedy", "--json", stdin=text.encode()))
        assert all(policy["mean_wait_s"] >= 0 for policy in document["policies"])


@pytest.mark.quick
def test_the_table_of_the_sample(offpeak: Offpeak, golden: Callable[[str, str], None]) -> None:
    done = offpeak("simulate", SAMPLE_LOG, "--prices", SAMPLE_PRICES, "--carbon", "400g/kWh", "--by", "class")
    assert (done.returncode, done.stderr) == (0, "")
    golden("simulate_sample.txt", done.stdout)


def on_terminal(command: list[str | Path], columns: int, environment: dict[str, str], folder: Path) -> str:
    """Return what the command prints on a terminal of that width, without control sequences."""
    master, slave = pty.openpty()
    shown = environment | {"TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(command, cwd=folder, env=shown, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL) as done:
        os.close(slave)
        printed = b""
        try:
            while piece := os.read(master, 65536):
                printed += piece
        except OSError:  # Linux ends a terminal so
            pass
        finally:
            os.close(master)
    assert done.returncode == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\r", "")


@pytest.mark.quick
@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_wraps_nothing_and_takes_nothing_for_markup(
    offpeak: Offpeak, environment: dict[str, str], tmp_path: Path, columns: int
) -> None:
    log = tmp_path / "[bold]log[ :rocket: [red].swf.gz"
    log.write_bytes(SAMPLE_LOG.read_bytes())
    command = [*offpeak("--version").args[:1], "simulate", log, "--prices", SAMPLE_PRICES, "--carbon", "400g/kWh"]
    lines = on_terminal(command, columns, environment, tmp_path).splitlines()
    assert lines[0].startswith("[bold]log[ :rocket: [red]: 4,500 jobs on 128 nodes, ")
    assert max(map(len, lines)) <= columns
    begins = [
        next(at for at, line in enumerate(lines) if line.startswith(name)) for name in ("easy", "greedy", "knaps")
    ]
    assert begins == list(range(begins[0], begins[0] + 3))
    header = " ".join(" ".join(lines[2 : begins[0]]).split())
    assert header.endswith("CO2 t")
    assert all("…" not in line for line in lines)


@pytest.mark.quick
def test_a_reader_that_has_gone_is_no_news(environment: dict[str, str], offpeak: Offpeak) -> None:
    command = f"'{offpeak('--version').args[0]}' simulate '{SAMPLE_LOG}' --by day,user --policy easy | head -1"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sample: 4,500 jobs")


def test_ctrl_c_leaves_one_line_and_no_file(environment: dict[str, str], offpeak: Offpeak, tmp_path: Path) -> None:
    jobs = lublin_jobs(1_000_000, machine_size=128, seed=1, load=0.99)
    write_swf(jobs, tmp_path / "big.swf", processors=128, unix_start_s=None, zone=None)
    (tmp_path / "s.csv").write_text("what was there before", encoding="utf-8")
    command = [offpeak("--version").args[0], "simulate", "big.swf", "--policy", "knapsack", "--schedule", "s.csv"]
    # A minute of work, so that it is not done when it is interrupted, however fast the machine is.
    command += ["--replays", "50"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True) as running:
        time.sleep(4)
        running.send_signal(signal.SIGINT)
        printed, errors = running.communicate(timeout=300)
    assert (running.returncode, printed, errors) == (130, "", "offpeak: interrupted\n")
    assert {path.name for path in tmp_path.iterdir()} == {"big.swf", "s.csv"}
    assert (tmp_path / "s.csv").read_text(encoding="utf-8") == "what was there before"


@pytest.mark.quick
def test_debug_shows_the_traceback(offpeak: Offpeak) -> None:
    done = offpeak("simulate", "absent.swf", "--debug")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-2] == "offpeak: error: absent.swf: no such file"


@pytest.mark.quick
def test_many_replays_tell_effect_from_chance(offpeak: Offpeak) -> None:
    command = ("simulate", SAMPLE_LOG, "--prices", SAMPLE_PRICES, "--policy", "easy,greedy,knapsack", "--replays", "10")
    table = offpeak(*command).stdout
    assert "10 replays with submit times shifted by up to a minute" in table
    assert re.search(r"^greedy +\d\.\d\d \(\d\.\d\d to \d\.\d\d\) %", table, re.MULTILINE)
    easy, greedy, knapsack = answer(offpeak(*command, "--json"))["replays"]
    assert easy["differences"]["cost"] == {"mean": 0, "low": 0, "high": 0}
    assert greedy["figures"]["saving_pct"]["low"] > 0
    assert greedy["differences"]["cost"]["high"] < 0
    assert knapsack["replays"] == 10


@pytest.mark.quick
def test_ranges_of_a_log_without_dates_contain_the_choice_of_the_week(
    offpeak: Offpeak, log: Path, tmp_path: Path
) -> None:
    arguments = ["simulate", str(log), "--prices", str(SAMPLE_PRICES), "--policy", "easy,greedy", "--replays", "10"]
    report = tmp_path / "report.html"
    text = offpeak(*arguments, "--report", str(report)).stdout
    assert "replays (--replays) lay it on others of 5" in text
    assert "10 replays over 10 alignments with the prices, with submit times" in text
    assert "ranges hold 19 of 20 further alignments" in text
    assert "Medians of 10 replays over 10 alignments with the prices" in report.read_text(encoding="utf-8")
    drawn, again, fixed = (answer(offpeak(*arguments, "--json", *more)) for more in ([], [], ["--start", "2023-05-08"]))
    assert drawn["replays"] == again["replays"]
    easy, kept = drawn["replays"][0], fixed["replays"][0]
    assert (easy["alignments"], kept["alignments"]) == (10, 1)
    cost, kept_cost = easy["figures"]["cost"], kept["figures"]["cost"]
    assert cost["low"] < cost["median"] < cost["high"]
    assert "median" not in kept_cost
    assert cost["high"] - cost["low"] > 5 * (kept_cost["high"] - kept_cost["low"])
    assert any("the week is fixed (--start)" in line for line in fixed["notes"])


@pytest.mark.quick
def test_too_few_replays_are_refused(offpeak: Offpeak, log: Path) -> None:
    done = offpeak("simulate", log, "--replays", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--replays" in done.stderr.splitlines()[0]


@pytest.mark.quick
def test_json_tells_the_unit_that_the_machine_is_counted_in(offpeak: Offpeak, log: Path) -> None:
    document = answer(offpeak("simulate", log, "--policy", "easy", "--json"))
    assert (document["machine_size"], document["units_per_node"]) == (8, 1)


@pytest.mark.quick
def test_users_by_name_are_named(offpeak: Offpeak) -> None:
    done = offpeak("simulate", SAMPLE_SACCT, "--policy", "easy", "--by", "user")
    assert re.search(r"^user\d+ ", done.stdout, re.MULTILINE)
