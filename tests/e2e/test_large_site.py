"""docs/how-to/large-site.md as an admin follows it, with a real slurmctld, PostgreSQL and Prometheus."""

import os
import re
import subprocess
import time
import tomllib
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import certifi
import psycopg
import pyarrow.parquet as pq
import pytest
import requests
from needed_programs import need
from node_story import FLAT
from own_certificate import write_certificate
from postgres_server import new_postgres
from powered_fixtures import StartPowered
from shown_output import pattern
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.node import BUSY_W, IDLE_W
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import listens, reserved_ports, running, wait_until
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.settings.ledger import LedgerSettings

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]

OLD_S = 183 * 86_400


class HowTo:
    """What the page has its reader write and type, with the names of this site in place of the example's."""

    def __init__(self, file: Path, names: dict[str, str]) -> None:
        self.text = file.read_text(encoding="utf-8")
        for example, name in names.items():
            assert example in self.text, example
            self.text = self.text.replace(example, name)

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def found(self, expression: str) -> str:
        """Return the part of the text that the group of the expression matches, once on the page."""
        (text,) = re.findall(expression, self.text)
        return str(text)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all blocks, one below the other."""
        return tomllib.loads("".join(self.blocks("toml")))

    @property
    def environment(self) -> dict[str, str]:
        """What the drop-in of the unit sets."""
        return dict(re.findall(r"^Environment=(\w+)=(.*)$", "".join(self.blocks("ini")), re.MULTILINE))

    def type_commands(self, folder: Path, environment: dict[str, str]) -> int:
        """Type each command that the page shows with its output, and return how many there were."""
        shown = [block.removeprefix("$ ").partition("\n") for block in self.blocks("text") if block.startswith("$ ")]
        for command, _, output in shown:
            line = ["bash", "-c", command]
            done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), command
            assert re.fullmatch(pattern(output), done.stdout), f"{command}\n{done.stdout}"
        return len(shown)


class Store:
    """Prometheus with a certificate of its own."""

    def __init__(self, folder: Path, port: int, option: str) -> None:
        self.folder, self.url = folder, f"https://127.0.0.1:{port}/api/v1/query"
        self.certificate = write_certificate(folder / "store.pem", "127.0.0.1")
        (folder / "web.yml").write_text("tls_server_config: {cert_file: store.pem, key_file: store.pem}\n")
        (folder / "prometheus.yml").touch()
        files = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb")
        self.command = (*files, f"--web.config.file={folder}/web.yml", f"--web.listen-address=127.0.0.1:{port}", option)
        self.port = port

    def up(self) -> AbstractContextManager[object]:
        return running("prometheus", *self.command, log=self.folder / "store.log", ready=lambda: listens(self.port))

    def ask(self, expression: str) -> dict[tuple[str, str], dict[str, str]]:
        """Return the labels of what a query finds, with the value, by node and way."""
        try:
            answer = requests.get(self.url, {"query": expression}, verify=str(self.certificate), timeout=300)
        except requests.RequestException:
            # It has just started.
            return {}
        found = answer.json()["data"]["result"] if answer.ok else ()
        series = ({**each["metric"], "value": each["value"][1]} for each in found)
        return {(each["node"], each["way"]): each for each in series if "node" in each}


def filled_tables(url: str) -> set[str]:
    """Return the partitions, and `readings` if that has rows."""
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'").fetchall()
        return {name for (name,) in [*names, *connection.execute("SELECT 'readings' FROM readings LIMIT 1")]}


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=2))


def test_followed_literally(cluster: PoweredCluster, zygote: Zygote, repository: Path, tmp_path: Path) -> None:
    need(["prometheus"], packages="prometheus")
    token, authorities = tmp_path / "metrics.token", tmp_path / "ca-certificates.crt"
    with new_postgres() as server, server.up(), reserved_ports(2) as (port, page_port):
        url, host, month = server.create("offpeak"), f"127.0.0.1:{port}", f"{datetime.now(UTC):%Y-%m}"
        names = {
            "postgresql://offpeak@db1/offpeak": url,
            "metrics.example.org": host,
            "/etc/offpeak/metrics.token": str(token),
            "/etc/ssl/certs/ca-certificates.crt": str(authorities),
            "2026-11": month,
            "2026_11": month.replace("-", "_"),
        }
        how_to = HowTo(repository / "docs/how-to/large-site.md", names)
        store = Store(tmp_path, port, how_to.found(r"Prometheus with `(--[\w.-]+)`"))
        authorities.write_bytes(Path(certifi.where()).read_bytes() + store.certificate.read_bytes())
        token.touch(0o600)
        token.write_text("secret\n")
        with metered_racks(cluster) as racks:
            settings = write_site(cluster, {**FLAT, **how_to.settings, "agent": {"mode": "shadow"}}, racks=racks)
            agent = RunningAgent(
                cluster, ("agent", "--config", str(settings)), zygote.start, environment=how_to.environment
            )
            agent.start()
            page_log, page_command = tmp_path / "page.log", ("page", "--listen", f"127.0.0.1:{page_port}")
            page = zygote.start((*page_command, "--config", str(settings)), page_log, {**os.environ})
            try:
                follow_to_the_store(cluster, how_to, store, agent, f"http://127.0.0.1:{page_port}/metrics")
            finally:
                page.terminate()
                page.wait(300)
                agent.stop()
        follow_in_the_ledger(cluster, how_to, url, tmp_path)


def follow_to_the_store(
    cluster: PoweredCluster, how_to: HowTo, store: Store, agent: RunningAgent, metrics_url: str
) -> None:
    """Section 2: samples arrive with the labels of the page, also those of a time in which the store is away."""
    metric, labels = how_to.found(r"The metric is `(\w+)\{"), how_to.found(r"The metric is `\w+\{([\w, ]+)\}`")
    series = {("node1", "snmp"), ("node2", "snmp"), ("node1", "dcmi"), ("node2", "dcmi")}
    with store.up():
        wait_until(lambda: store.ask(metric).keys() == series, what="a sample of each meter", log=agent.log)
        assert {*store.ask(metric)["node1", "snmp"]} == {"__name__", "value", *labels.split(", ")}
    status = how_to.found(r"`offpeak status` then says `([^`]*)`")
    wait_until(lambda: status in run_offpeak(cluster, "status").stdout, what=status, log=agent.log)
    (job,) = cluster.jobs.submit(on="node1", seconds=3)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="a job while the store is away")
    with store.up():
        highest = f"max_over_time({metric}[1h])"
        busy = {("node1", "snmp"): BUSY_W, ("node2", "snmp"): IDLE_W}
        wait_until(
            lambda: busy.items() <= {name: float(each["value"]) for name, each in store.ask(highest).items()}.items(),
            what="the samples of that time",
            log=agent.log,
        )
        named = set(re.findall(r"offpeak_remote_write_\w+(?:\{.*?\})?", how_to.text))
        wait_until(lambda: named <= of_metrics(metrics_url), what=f"the metrics {named}")


def of_metrics(url: str) -> set[str]:
    """Return the names of the metrics of the page, with their labels."""
    try:
        lines = requests.get(url, timeout=300).text.splitlines()
    except requests.ConnectionError:
        return set()
    return {line.rpartition(" ")[0] for line in lines}


def follow_in_the_ledger(cluster: PoweredCluster, how_to: HowTo, url: str, folder: Path) -> None:
    """Sections 1 and 3, after the agent has ended: partitions by month without readings, and the exports."""
    with closing(Ledger(LedgerSettings(url=url, keep_readings_s=0))) as ledger:
        old_s = time.time() - OLD_S
        ledger.write_readings([MeterReading("pdu1", "snmp", "1", old_s, old_s + 10.0, 100.0, node="node1")])
        ledger.settle()
    months = {f"{datetime.fromtimestamp(at_s, UTC):%Y_%m}" for at_s in (old_s, time.time())}
    both = {f"{table}_{month}" for table in ("minutes", "quarters") for month in months}
    assert filled_tables(url) == both
    assert how_to.found(r"such as `(minutes_\w+)`") in both
    path = os.pathsep.join([str(Path(cluster.offpeak[0]).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OFFPEAK_CONFIG": str(cluster.folder / "offpeak.toml")}
    assert how_to.type_commands(folder, environment) == 3
    assert filled_tables(url) == both - {f"minutes_{min(months)}"}
    table = pq.read_table(next(folder.glob("readings/minutes-*.parquet")))
    columns = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", how_to.text, re.MULTILINE)))
    assert sorted(columns) == sorted(table.column_names)
    rows = [row for row in table.to_pylist() if (row["node"], row["way"]) == ("node1", "snmp")]
    mean_w = sum(row["energy_j"] for row in rows) / sum(row["covered_s"] for row in rows)
    assert IDLE_W < mean_w < BUSY_W
    assert (min(row["min_w"] for row in rows), max(row["max_w"] for row in rows)) == (IDLE_W, BUSY_W)
    assert (folder / "november.zip").exists()
