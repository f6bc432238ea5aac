"""From a Slurm without offpeak to an agent in shadow mode, on the cluster of `make demo-slurm`, by three commands."""

import subprocess
from pathlib import Path

from powered_fixtures import StartPowered

from benchmarks.demo_slurm import PLAN
from benchmarks.local_slurm.plan import REPOSITORY
from benchmarks.local_slurm.processes import start_server, wait_until


def test_three_commands_lead_to_shadow_mode(start_powered: StartPowered, tmp_path: Path) -> None:
    cluster = start_powered(PLAN)
    environment = {**cluster.environment, "PYTHONPATH": str(REPOSITORY)}
    config = ("--config", str(tmp_path / "offpeak.toml"))

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = (*cluster.offpeak, *arguments)
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def offpeak(*arguments: str) -> str:
        done = call(*arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    written = offpeak("init", "--folder", str(tmp_path), "--price", "0.21EUR/kWh", "--node-class", "server")
    assert "10 nodes, node[1-10]" in written
    assert "Slurm  answers" in offpeak("check", *config)
    log = tmp_path / "agent.log"
    process = start_server((*cluster.offpeak, "agent", *config), log, environment)
    try:
        wait_until(lambda: call("status", *config).returncode == 0, what="the agent's first cycle", log=log)
        shown = offpeak("status", *config)
    finally:
        process.terminate()
        process.wait(300)
    assert "shadow" in shown
    kinds = (tmp_path / "inventory.toml").read_text()
    assert "[hardware.cpu4-2a100]" in kinds
    assert "[hardware.cpu4]" in kinds
