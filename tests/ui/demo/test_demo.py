"""`offpeak demo`: a short one, from the first line to the report, and what it compares itself with."""

import http.client
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC
from pathlib import Path

import pytest
from page_site import ENVIRONMENT, OFFPEAK
from zygote import Zygote

from benchmarks.local_slurm.processes import listens, reserved_ports, wait_until
from offpeak.display import money_text
from offpeak.errors import BadInput
from offpeak.ledger.database import PATIENCE_S, open_ledger
from offpeak.ledger.records import actions_in
from offpeak.model.clock import FastClock
from offpeak.model.cluster import Cluster, Pool
from offpeak.model.constants import DAY_S
from offpeak.model.flexibility import parse_user_hints
from offpeak.model.node_class_file import node_class_named
from offpeak.model.request import Request
from offpeak.model.time_range import TimeRange
from offpeak.process import AlreadyRunning, locked_file
from offpeak.settings.ledger import LedgerSettings
from offpeak.ui.demo.live_cluster import without_offpeak
from offpeak.ui.demo.run import WIDTH, first_free_port, ready_ledger, run_demo
from offpeak.ui.demo.site import (
    BEGIN_S,
    GPU,
    GPU_KIND,
    KINDS,
    MARK,
    PARTITIONS,
    RUSH_AT_SHARE,
    THIN,
    DemoJob,
    DemoPlan,
    demo_cluster,
    jobs_to_come,
    make_folder,
    price_at,
    write_site,
)

LONG_S = 600.0
"""On a machine where the engine was never compiled, and others compile too."""


Offpeak = Callable[..., subprocess.CompletedProcess[str]]


def says_what_it_does(text: str, ledger: Path) -> None:
    assert "6 virtual nodes, " in text
    types = ("4 nodes of 16 cores, 64 GiB", "1 node of 16 cores, 256 GiB", "1 node of 16 cores, 256 GiB, 4 a100 GPUs")
    assert "\ncluster: {}\n".format("\n  ".join(types)) in text
    assert re.search(r"^jobs lost +0 +0$", text, re.MULTILINE)
    steps = re.findall(r"^(\d\d:\d\d)  (.+)$", text, re.MULTILINE)
    assert any(line.startswith("prices are high until ") for _, line in steps), text
    assert all(len(f"{at}  {line}") <= WIDTH for at, line in steps)
    with closing(sqlite3.connect(ledger)) as connection:
        ((watched,),) = connection.execute("SELECT text FROM memory WHERE name = 'watched times'").fetchall()
    assert sum(each["until_unix_s"] - each["from_unix_s"] for each in json.loads(watched)) > 0
    with open_ledger(f"sqlite:///{ledger}") as connection:
        done = actions_in(connection, TimeRange(BEGIN_S, BEGIN_S + DAY_S))
    assert {"close"} <= {each["order"] for each in done if each["result"] == "done"}
    assert not [each for each in done if each["result"] == "failed"]


def says_the_same_everywhere(text: str, offpeak: Offpeak, place: str, report: Path) -> None:
    """Every place that shows a saving or what was used shows that of the terminal: energy, money and share."""
    (kwh, cost) = re.findall(r"^used: ([\d.]+) kWh for ([\d.]+) EUR", text, re.MULTILINE)[0]
    assert re.search(rf"^nodes with meters +{kwh} .* {cost} EUR", offpeak("report", "--month", "2026-11").stdout, re.M)
    for by in ("node", "day"):
        rows = offpeak("ledger", "cost", "--by", by, "--since", "2026-11-09").stdout.splitlines()
        assert [kwh, cost] == next(row for row in reversed(rows) if "EUR" in row).split()[1:3]
    (saved,) = re.findall(r"^saved: (.+)$", text.replace("\r", ""), re.MULTILINE)
    assert f"Saved {saved}." in report.read_text()
    assert f"saved today  {saved}\n" in offpeak("status").stdout
    assert f"\nsaved: {saved}\n" in offpeak("ledger", "savings", "--since", "2026-11-09").stdout
    assert f"\nSaved {saved}.\n" in offpeak("report", "--month", "2026-11").stdout
    (money,) = re.findall(r"^-?([\d.]+) EUR", saved)
    data = re.findall(rb"event: saved\ndata: (.+)", followed(place, until=b"event: saved"))[-1]
    day, month = (json.loads(data)[name][0] for name in ("day", "month"))
    assert {f"{each['cost']:.2f}" for each in (day, month)} == {money}
    assert day["share"] == month["share"]
    rows = json.loads(offpeak("ledger", "savings", "--since", "2026-11-09", "--json").stdout)
    of_status = json.loads(offpeak("status", "--json").stdout)["saved_today"]
    costs = [row["baseline_cost"] - row["cost"] for row in rows]
    assert [each["cost"] for each in (of_status, day, month)] == [pytest.approx(sum(costs), abs=1e-9)] * 3
    by_lever = re.findall(r"^- by .+: (.+)$", text.replace("\r", ""), re.MULTILINE)
    assert sorted(by_lever) == sorted(money_text(cost, "EUR") for cost in costs)
    bills = json.loads(offpeak("jobs", "--since", "2026-11-09", "--json").stdout)
    by_user = json.loads(offpeak("ledger", "cost", "--by", "user", "--since", "2026-11-09", "--json").stdout)
    assert bills
    for name in ("energy_j", "cost", "carbon_g"):
        assert sum(bill[name] for bill in bills) == pytest.approx(sum(row[name] for row in by_user))
    (counted,) = re.findall(r'^offpeak_saved_today_cost\{currency="EUR"\} (\S+)$', metrics_of(place), re.MULTILINE)
    assert f"{float(counted):.2f}" == money


def metrics_of(place: str) -> str:
    connection = http.client.HTTPConnection(place, timeout=300)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_in_a_terminal_the_page_stays_until_ctrl_c(tmp_path: Path, repository: Path, zygote: Zygote) -> None:
    with reserved_ports(2) as (page_port, hardware_port):
        place = f"127.0.0.1:{page_port}"
    options = ("--seconds", "10", "--nodes", "6", "--clock-factor", "900", "--listen", place)
    command = (*OFFPEAK, "demo", *options, "--hardware-port", str(hardware_port), "--folder", "demo")
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "CI"}
    with terminal(command, cwd=tmp_path, env=environment, log=tmp_path / "out") as running:

        def first_line() -> str:
            done = offpeak("status")
            return done.stdout.partition("\n")[0] if done.returncode == 0 else ""

        def offpeak(*arguments: str) -> subprocess.CompletedProcess[str]:
            line = [zygote.command, *arguments, "--config", "demo/offpeak.toml"]
            return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

        wait_until(lambda: bool(first_line()), what="the agent", log=tmp_path / "out", seconds=LONG_S)
        healthy = r"simulated \(simulated 1\): mode active, looked \d+ (s|min) ago, every 8 min"
        assert re.fullmatch(healthy, first_line())
        wait_until(lambda: "until Ctrl-C" in read(tmp_path / "out"), what="the end of the day", seconds=LONG_S)
        text = read(tmp_path / "out")
        says_what_it_does(text, tmp_path / "demo" / "ledger.sqlite")
        says_the_same_everywhere(text, offpeak, place, tmp_path / "demo" / "report.html")
        assert "saved: " in text.partition(f"\nThe page stays at http://{place}/ until Ctrl-C.")[0]
        assert "offpeak history --since 2026-11-10 --config demo/offpeak.toml" in text
        commands = commands_of_the_page(repository)
        assert len(commands) >= 4
        for arguments in commands:
            done = offpeak(*arguments)
            assert (done.returncode, done.stderr) == (0, ""), arguments
        assert "  sleeps  " in offpeak("history", "--since", "2026-11-09").stdout
        assert "soft_off" in offpeak("ledger", "actions", "--since", "2026-11-09").stdout
        assert "--since 2026-11-10" in offpeak("history").stdout
        status = offpeak("status").stdout
        assert re.match(healthy, status)
        assert "- demo: its day is over; this is its last state" in status
        events = followed(place, until=b"event: power")
        assert b'"mode":"active"' in events
        assert re.search(rb"event: power\ndata: \[\[\d+,", events)
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 0, read(tmp_path / "out")
    assert not listens(page_port)


@contextmanager
def terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a terminal until the block ends, and copy what it prints to a file."""
    ours, its = pty.openpty()
    running = subprocess.Popen(command, cwd=cwd, env=env, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)

    def copy() -> None:
        with log.open("wb", buffering=0) as file, suppress(OSError):
            while part := os.read(ours, 65_536):
                file.write(part)

    copying = threading.Thread(target=copy)
    copying.start()
    try:
        yield running
    finally:
        running.terminate()
        running.wait()
        copying.join()
        os.close(ours)


def commands_of_the_page(repository: Path) -> list[list[str]]:
    """Return what docs/how-to/demo.md asks the demo, without `offpeak why`: its job has to wait still."""
    text = (repository / "docs" / "how-to" / "demo.md").read_text()
    lines = re.findall(r"(?m)^    offpeak (.+) --config demo/offpeak\.toml$", text)
    return [line.split() for line in lines if not line.startswith("why ")]


def read(file: Path) -> str:
    return file.read_text().replace("\r\n", "\n")


def followed(place: str, *, until: bytes) -> bytes:
    """Return what the page sends a browser, up to the line after that event."""
    connection, got = http.client.HTTPConnection(place, timeout=300), b""
    connection.request("GET", "/events")
    response = connection.getresponse()
    while until not in got or not got.partition(until)[2].count(b"\n\n"):
        got += response.read1(65_536)
    response.close()
    connection.close()
    return got


def test_a_demo_that_is_interrupted_compares_the_time_until_then(tmp_path: Path) -> None:
    with reserved_ports(2) as (page_port, hardware_port):
        place = f"127.0.0.1:{page_port}"
    options = ("--seconds", "300", "--nodes", "4", "--clock-factor", "900", "--listen", place)
    command = (*OFFPEAK, "demo", *options, "--hardware-port", str(hardware_port), "--folder", "demo")
    with (tmp_path / "out").open("wb") as out:
        running = subprocess.Popen(command, env=ENVIRONMENT, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)
    try:
        agent_socket = tmp_path / "demo" / "run" / "agent.sock"
        wait_until(agent_socket.exists, what="the agent", log=tmp_path / "out", seconds=LONG_S)
        time.sleep(2.0)
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 0, read(tmp_path / "out")
    finally:
        running.terminate()
        running.wait()
    assert re.search(r"^ended after \d+\.\d of 75 hours; until then:$", read(tmp_path / "out"), re.MULTILINE)
    used = re.search(r"^used: ([\d.]+) kWh for [\d.]+ EUR$", read(tmp_path / "out"), re.MULTILINE)
    assert used is not None
    assert float(used[1]) > 0
    assert "\nsaved: " in read(tmp_path / "out")


def test_a_ledger_that_is_late_does_not_end_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    settings = LedgerSettings(url=f"sqlite:///{file}")
    ready_ledger(settings).close()
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.5 * PATIENCE_S, lambda: other.execute("ROLLBACK"))
        release.start()
        ledger = ready_ledger(settings)
        release.join()
    assert ledger.close() == 0


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(BadInput, match="holds something else"):
        write_site(DemoPlan(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_of_a_running_demo_is_left_alone(tmp_path: Path) -> None:
    with reserved_ports(1) as (port,):
        plan = DemoPlan(tmp_path / "demo", listen=f"127.0.0.1:{port}")
    with locked_file(make_folder(plan), message="", hint=""):
        (plan.folder / "ledger.sqlite").touch()
        with pytest.raises(AlreadyRunning, match="another demo runs in"):
            run_demo(plan, print, stays=False)
    assert (plan.folder / "ledger.sqlite").exists()


def test_a_busy_port_and_one_that_another_demo_took_are_left_alone() -> None:
    """Of BMCs by UDP, and of the page by TCP."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as other:
            other.bind(("127.0.0.79", 0))
            if kind == socket.SOCK_STREAM:
                other.listen()
            port = other.getsockname()[1]
            taken = first_free_port("127.0.0.79", port, kind)
            assert port < taken < port + 100
            assert taken < first_free_port("127.0.0.79", taken, kind) < port + 100


def test_the_port_of_a_connection_that_closes_can_be_had_again() -> None:
    with socket.create_server(("127.0.0.79", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.79", port))
        accepted, _ = server.accept()
        accepted.close()
        client.close()
    assert first_free_port("127.0.0.79", port, socket.SOCK_STREAM) == port


def test_a_demo_whose_page_cannot_listen_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.79", 0)) as other:
        plan = DemoPlan(tmp_path / "demo", listen=f"127.0.0.79:{other.getsockname()[1]}")
        with pytest.raises(BadInput, match=r"^127\.0\.0\.79:\d+: Address already in use$"):
            run_demo(plan, print, stays=False)
    assert not (tmp_path / "demo").exists()


def test_the_story_has_a_rush_before_electricity_gets_cheap_and_jobs_that_may_wait() -> None:
    jobs = jobs_to_come(16, 36_000)
    patient = [job for job in jobs if job.comment]
    assert [parse_user_hints(job.comment, UTC).delay_s for job in patient] == [8 * 3600] * 2
    rush = [job for job in jobs if RUSH_AT_SHARE * 36_000 <= job.at_s < 5 * 3600 and job.kind.partition == "batch"]
    assert sum(job.nodes for job in rush) > 2 * 12
    assert len({job.kind.name for job in rush}) == 3


def test_files_of_an_earlier_demo_are_removed(tmp_path: Path) -> None:
    (tmp_path / MARK).touch()
    (tmp_path / "old").touch()
    settings = write_site(DemoPlan(tmp_path, nodes=4))
    assert not (tmp_path / "old").exists()
    assert (settings.agent.mode, settings.agent.nodes) == ("active", "n01,n02,n03,n04")


def test_the_same_jobs_come_each_time() -> None:
    jobs = jobs_to_come(16, 36_000)
    assert jobs == jobs_to_come(16, 36_000)
    assert list(jobs) == sorted(jobs, key=lambda job: job.at_s)
    assert all(job.run_s <= job.limit_s and 0 <= job.at_s <= 36_000 and job.nodes <= 8 for job in jobs)


def test_without_offpeak_by_hand() -> None:
    server = node_class_named("server")
    job = DemoJob(1, 0, 1, 1800, 3600, "ann", KINDS[0])
    pool = Pool(THIN, frozenset({"batch"}), 2, frozenset({"n1", "n2"}))
    found = without_offpeak([job], Cluster((pool,), PARTITIONS), server, 3600)
    expected_j = 1800 * (700 + 200) + 1800 * 400
    assert found.energy_j == pytest.approx(expected_j)
    assert found.cost == pytest.approx(expected_j / 3.6e9 * price_at(BEGIN_S))
    assert (found.started, found.lost, found.wait_s, found.work_s) == (1, 0, 0.0, 1800.0)


def test_jobs_that_share_a_node_add_up_by_hand() -> None:
    server = node_class_named("server")
    pool = Pool(GPU, frozenset({"gpu"}), 1, frozenset({"g1"}))
    jobs = [DemoJob(number, 0, 1, 1800, 3600, "ann", GPU_KIND, gpus=2) for number in (1, 2, 3)]
    found = without_offpeak(jobs, Cluster((pool,), PARTITIONS), server, 3600)
    full_w, half_w = server.running_w(GPU_KIND.utilisation), server.running_w(GPU_KIND.utilisation / 2)
    assert found.energy_j == pytest.approx(1800 * (full_w + half_w))
    assert (found.started, found.wait_s, found.work_s) == (3, 600.0, 2700.0)


@pytest.mark.parametrize("nodes", [4, 5, 6, 16, 64, 200])
def test_every_job_fits_the_cluster(nodes: int) -> None:
    cluster, jobs = demo_cluster(nodes), jobs_to_come(nodes, 36_000)
    requests = {Request((job.kind.partition,), (job.chunk,), whole_nodes=job.node_share == 1.0) for job in jobs}
    assert [misfit for request in requests if (misfit := cluster.misfit(request))] == []
    assert cluster.nodes == nodes
    assert {job.kind.partition for job in jobs} == {"batch", "gpu"}
    assert len({job.memory_mib for job in jobs}) > 2
    (array,) = {job.number for job in jobs if job.index is not None}
    assert sum(job.number == array for job in jobs) == 6
    names = [(job.number, job.index) for job in jobs]
    assert len(set(names)) == len(names)


def test_all_jobs_of_the_demo_start_on_a_cluster_that_is_always_on() -> None:
    jobs = jobs_to_come(16, 36_000)
    found = without_offpeak(jobs, demo_cluster(16), node_class_named("server"), 2 * 36_000)
    assert (found.started, found.lost) == (len(jobs), 0)


def test_a_clock_stands_until_it_is_started() -> None:
    clock = FastClock(1e6, 1000.0)
    assert (clock.unix_s(), clock.steady_s()) == (1000.0, 0.0)
    clock.start()
    wait_until(lambda: clock.steady_s() > 1000, what="a millisecond to pass")
    assert clock.unix_s() > 2000
    assert clock.clock.factor == 1e6
    clock.stop()
    stopped_s = clock.steady_s()
    time.sleep(0.01)
    assert (clock.steady_s(), clock.unix_s()) == (stopped_s, 1000.0 + stopped_s)
