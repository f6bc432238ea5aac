"""What check, init, the agent's log, status and the page say of the scheduler's configuration: the same in all."""

import json
from collections.abc import Iterable
from pathlib import Path

from node_story import FLAT, offpeak
from powered_stage import PoweredStage

from benchmarks.local_slurm.agent import Start, Tables, agent, run_offpeak, write_site
from offpeak.plugin.contract.rules import Rule


def init(cluster: PoweredStage, folder: Path) -> str:
    """Return what `offpeak init` prints for nodes with BMCs."""
    options = ("--price", "0.21EUR/kWh", "--bmcs", "{node}-bmc", "--node-class", "server")
    return offpeak(cluster, "init", "--folder", str(folder), *options)


def told_findings(cluster: PoweredStage, folder: Path, start: Start, changes: Tables | None = None) -> list[str]:
    """Return the messages of the findings; AssertionError where one of the five says other words, or none."""
    settings = write_site(
        cluster, {**(changes or {}), "agent": {"mode": "shadow", **(changes or {}).get("agent", {})}, **FLAT}
    )
    checked = json.loads(run_offpeak(cluster, "check", "--json").stdout)
    code = run_offpeak(cluster, "check").returncode
    words = init(cluster, folder)
    with agent(cluster, settings, by=start):
        cluster.wait(lambda: "looked" in run_offpeak(cluster, "status").stdout, what="the first round")
        status = offpeak(cluster, "status")
        page = json.loads(offpeak(cluster, "status", "--json"))["troubles"]
    log = (cluster.folder / "agent.log").read_text()
    found = [each for each in checked if each["part"] == "scheduler" and each["verdict"] != "ok"]
    for each in found:
        line = f"{each['said']}; {each['hint']}"
        assert f"- {line}" in status
        assert line in page
        assert line in log
        assert each["said"] in words
    assert code == 1 or not any(each["verdict"] == "failed" for each in found)
    return [each["said"] for each in found]


def broken_rules(messages: Iterable[str], rules: Iterable[Rule]) -> set[str]:
    """Return the rules whose reasons the messages give."""
    found = list(messages)
    return {rule.name for rule in rules if any(f": {rule.reason}" in message for message in found)}
