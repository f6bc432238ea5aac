"""Metrics, alerts and dashboard, as a real Prometheus judges them."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import stat, timeseries, units
from grafana_foundation_sdk.models.dashboard import Dashboard
from needed_programs import need
from page_site import AT_S, DAY_BEGAN_S, DAY_S, HOUR_S, QUARTER_S, PageSite, make_snapshot, page_site
from zygote import Zygote

from benchmarks.local_slurm.processes import SEARCH_PATH, reserved_ports, running, wait_until
from offpeak.door.effect import Effect, Outcome
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading, Price, SavingRecord
from offpeak.model.orders import NodeOrder
from offpeak.settings.ledger import LedgerSettings

ALERTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'offpeak_agent_up{{instance="a"}}', values: '0x60'}}
      - {{series: 'offpeak_agent_up{{instance="b"}}', values: '1x120'}}
      - {{series: 'offpeak_electricity_price_per_megawatthour{{instance="b",currency="EUR"}}', values: '50x120'}}
      - {{series: 'offpeak_agent_up{{instance="c"}}', values: '1x120'}}
      - {{series: 'offpeak_agent_last_look_timestamp_seconds{{instance="b"}}', values: '0x120'}}
      - {{series: 'offpeak_agent_cycle_seconds{{instance="b"}}', values: '30x120'}}
      # An agent that has never looked says 0; these tests begin at 0, not in this century.
      - {{series: 'offpeak_agent_last_look_timestamp_seconds{{instance="c"}}', values: '-2000000000x120'}}
      - {{series: 'offpeak_agent_cycle_seconds{{instance="c"}}', values: '30x120'}}
      - {{series: 'offpeak_nodes{{state="unknown"}}', values: '0x20 2x100'}}
    alert_rule_test:
      - {{eval_time: 4m, alertname: OffpeakAgentDown}}
      - eval_time: 6m
        alertname: OffpeakAgentDown
        exp_alerts:
          - exp_labels: {{severity: critical, instance: a}}
            exp_annotations:
              summary: "offpeak's agent does not answer"
              description: "Sleeping nodes stay asleep until the scheduler's own program wakes them. \
systemctl status offpeak-agent"
      - eval_time: 90m
        alertname: OffpeakNoPrice
        exp_alerts:
          - exp_labels: {{severity: warning, instance: c}}
            exp_annotations:
              summary: offpeak knows no price of electricity
              description: The order of the queue stays unchanged. offpeak prices shows which source failed and why
      - {{eval_time: 40m, alertname: OffpeakNodesUnknown}}
      - {{eval_time: 3m, alertname: OffpeakAgentHangs}}
      - eval_time: 10m
        alertname: OffpeakAgentHangs
        exp_alerts:
          - exp_labels: {{severity: critical, instance: b}}
            exp_annotations:
              summary: offpeak's agent has completed no cycle for 10m 0s
              description: offpeak status shows what the agent waits for; journalctl -u offpeak-agent
          - exp_labels: {{severity: critical, instance: c}}
            exp_annotations:
              summary: offpeak's agent has completed no cycle since its start
              description: offpeak status shows what the agent waits for; journalctl -u offpeak-agent
"""


@dataclass
class Prometheus:
    """A Prometheus that scrapes a page, and the page."""

    port: int
    site: PageSite
    ledger: str

    def ask(self, expression: str) -> list[Any]:
        """Return the samples of an instant query."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=300) as answer:
            output = json.load(answer)
        assert output["status"] == "success", output
        return output["data"]["result"]  # type: ignore[no-any-return]


def is_ready(port: int) -> bool:
    """Tell whether it answers questions, which is some time after it listens."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=300) as answer:
        return bool(answer.status == 200)
    return False


@pytest.fixture(scope="module")
def prometheus(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Prometheus]:
    need(["prometheus", "promtool"], packages="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    with page_site(zygote, folder, make_snapshot(), hours=1) as site, reserved_ports(1) as (port,):
        scrape = (repository / "deploy" / "prometheus" / "offpeak.scrape.yml").read_text()
        place = site.url.removeprefix("http://").rstrip("/")
        scrape = scrape.replace("127.0.0.1:8017", place).replace("scrape_interval: 30s", "scrape_interval: 1s")
        rules = repository / "deploy" / "prometheus" / "offpeak.rules.yml"
        (folder / "prometheus.yml").write_text(f"rule_files: [{rules}]\n{scrape}")
        options = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
        listen = f"--web.listen-address=127.0.0.1:{port}"
        log = folder / "prometheus.log"
        with running("prometheus", *options, listen, log=log, ready=lambda: is_ready(port)):
            server = Prometheus(port, site, f"sqlite:///{folder}/ledger.sqlite")
            wait_until(lambda: bool(server.ask("offpeak_ledger_up")), what="a scrape", log=log)
            yield server


def test_what_a_scrape_brings(prometheus: Prometheus) -> None:
    def value(expression: str) -> float:
        (sample,) = prometheus.ask(expression)
        return float(sample["value"][1])

    shown = prometheus.site.agent.snapshot
    assert shown
    late, *others = shown.nodes
    prometheus.site.agent.snapshot = replace(shown, nodes=(late._replace(overdue_s=900.0), *others))
    wait_until(lambda: bool(prometheus.ask("offpeak_node_shutdown_overdue_seconds > 0")), what="the overdue node")
    (overdue,) = prometheus.ask("offpeak_node_shutdown_overdue_seconds")
    assert overdue["metric"]["node"] == late.node
    assert value("offpeak_agent_up") == value("offpeak_ledger_up") == value('offpeak_agent_mode{mode="active"}') == 1
    assert value("offpeak_agent_last_look_timestamp_seconds") == AT_S
    assert value('offpeak_electricity_price_per_megawatthour{currency="EUR"}') == 52
    assert value("offpeak_saved_today_joules") == pytest.approx(30.4 * 3.6e6)
    assert value("sum(offpeak_nodes)") == len(shown.nodes)
    assert value("sum(offpeak_node_power_watts)") == pytest.approx(sum(node.watts or 0 for node in shown.nodes))
    assert value('offpeak_jobs{state="pending"}') == 30
    assert value('offpeak_forecast_mean_absolute_error{about="run time",unit="s"}') == 1860
    assert value('offpeak_forecast_naive_mean_absolute_error{about="run time",unit="s"}') == 26_400
    assert value('offpeak_forecast_predictor{about="run time",predictor="similar jobs"}') == 1


def save(ledger: Ledger, cost: float, *, is_shadow: bool = False) -> None:
    row = (DAY_BEGAN_S, DAY_BEGAN_S + DAY_S, "all nodes on", 9e8, 22.0, 8e8, 22.0 - cost, "EUR")
    ledger.write_savings([SavingRecord(*row, saved_carbon_g=1e4 * cost, as_of_unix_s=AT_S, is_shadow=is_shadow)])


def panels_of(repository: Path) -> list[Any]:
    dashboard = json.loads((repository / "deploy" / "grafana" / "offpeak.json").read_text())
    return list(dashboard["panels"])


def test_every_panel_of_the_dashboard_has_something_to_show(prometheus: Prometheus, repository: Path) -> None:
    with closing(Ledger(LedgerSettings(url=prometheus.ledger))) as ledger:
        start_s = AT_S // QUARTER_S * QUARTER_S
        save(ledger, 1.0, is_shadow=True)
        ledger.write_prices([Price(start_s - HOUR_S, start_s + HOUR_S, 52.0, "EUR", "published", 180.0)])
        number = ledger.write_intent(Effect("n001", NodeOrder.SOFT_OFF, "offpeak", "idle"), AT_S)
        ledger.write_outcome(number, Outcome("done", "accepted", ""), AT_S)
        ledger.settle()
        wait_until(lambda: bool(prometheus.ask('offpeak_saved_cost_total{shadow="1"}')), what="the new counters")
        save(ledger, 5.0)
        save(ledger, 3.0, is_shadow=True)
        ledger.write_readings([MeterReading("rack2", "snmp", "1", start_s, start_s + 60.0, 6e5, node="n001")])
        ledger.settle()
    wait_until(lambda: bool(prometheus.ask("increase(offpeak_saved_cost_total[1h]) > 2")), what="the saving")
    expressions = [target["expr"] for panel in panels_of(repository) for target in panel["targets"]]
    assert len(expressions) > 20
    for expression in expressions:
        assert prometheus.ask(expression.replace("$job", "offpeak").replace("$__range", "1h")), expression


def test_the_dashboard_begins_with_what_was_saved(repository: Path) -> None:
    panels = panels_of(repository)
    first = [panel for panel in panels if panel["gridPos"]["y"] == 0]
    assert len(first) == 4
    assert all("offpeak_saved_" in panel["targets"][0]["expr"] for panel in first)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


def lost(written: Any, understood: Any, where: str = "") -> list[str]:
    """Return the places whose values are not in what was understood."""
    if isinstance(written, dict) and isinstance(understood, dict):
        return [each for key in written for each in lost(written[key], understood.get(key), f"{where}.{key}")]
    if isinstance(written, list) and isinstance(understood, list) and len(written) == len(understood):
        pairs = enumerate(zip(written, understood, strict=True))
        return [each for at, pair in pairs for each in lost(*pair, f"{where}[{at}]")]
    return [] if written == understood else [where]


def test_grafana_knows_each_key_and_unit_of_the_dashboard(repository: Path) -> None:
    register_default_plugins()
    written = json.loads((repository / "deploy" / "grafana" / "offpeak.json").read_text())
    assert lost(written, json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))) == []
    kinds = {"stat": stat, "timeseries": timeseries}
    for panel in written["panels"]:
        options = kinds[panel["type"]].Options.from_json(panel["options"])
        assert lost(panel["options"], json.loads(json.dumps(options, cls=JSONEncoder))) == []
        assert panel["fieldConfig"]["defaults"].get("unit", units.NoUnit) in vars(units).values()
    wrong = {"title": "x", "panels": [{"type": "stat", "fieldConfig": {"defaults": {"unitt": "kwatth"}}}]}
    understood = json.loads(json.dumps(Dashboard.from_json(wrong), cls=JSONEncoder))
    assert lost(wrong, understood) == [".panels[0].fieldConfig.defaults.unitt"]


def test_names_and_units_are_those_of_its_conventions(prometheus: Prometheus) -> None:
    with urllib.request.urlopen(f"{prometheus.site.url}metrics", timeout=300) as answer:
        text = answer.read()
    tool = ["promtool", "check", "metrics"]
    done = subprocess.run(tool, input=text, env={"PATH": SEARCH_PATH}, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode(), done.stdout.decode()) == (0, "", "")
    assert len(re.findall(rb"^# HELP offpeak_", text, re.MULTILINE)) >= 15


def test_no_alert_sounds_where_all_is_well_but_that_nobody_looks(prometheus: Prometheus) -> None:
    # The site of the test stands still at an afternoon: its agent is taken to hang, and two of its nodes are silent.
    expected = {"OffpeakAgentHangs", "OffpeakNodesUnknown"}
    sounding = {sample["metric"]["alertname"] for sample in prometheus.ask("ALERTS")}
    assert sounding <= expected


def test_rules_and_scrape_are_understood(repository: Path, tmp_path: Path) -> None:
    need(["promtool"], packages="prometheus")
    folder = repository / "deploy" / "prometheus"
    (tmp_path / "prometheus.yml").write_text((folder / "offpeak.scrape.yml").read_text())
    (tmp_path / "alerts.yml").write_text(ALERTS.format(rules=folder / "offpeak.rules.yml"))
    for arguments in (
        ("check", "rules", str(folder / "offpeak.rules.yml")),
        ("check", "config", str(tmp_path / "prometheus.yml")),
        ("test", "rules", str(tmp_path / "alerts.yml")),
    ):
        done = subprocess.run(
            ["promtool", *arguments], env={"PATH": SEARCH_PATH}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_silent_agent_is_a_metric_and_no_error(prometheus: Prometheus) -> None:
    site = prometheus.site
    before, site.agent.snapshot = site.agent.snapshot, None
    with urllib.request.urlopen(f"{site.url}metrics", timeout=300) as answer:
        text = answer.read().decode()
    site.agent.snapshot = before
    assert "\noffpeak_agent_up 0.0\n" in text
    assert "\noffpeak_ledger_up 1.0\n" in text
    assert "offpeak_nodes{" not in text
