"""`offpeak enroll --standby-test` on a running Slurm: a node with a job, or that may get one, is not touched."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_node import MAC, FakeNode, fake_node
from served_room import ServedRoom, planned, served_room
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.machines.inventory_file import read_inventory
from offpeak.ui.command import run

SITE = """\
[credentials]
bmc = {{ user = "admin", password_file = "password" }}
nodes = {{ user = "root", key_file = "key", known_hosts = "known_hosts" }}

[hardware.compute]
driver = "ipmi"
credential = "bmc"
port = {bmc_port}
ssh = "nodes"
ssh_port = {ssh_port}
standby = {{ wake = ["wol"], enter_timeout = "30s", wake_timeout = "10s" }}

[[machines]]
nodes = "node2"
hardware = "compute"
bmc = "{bmc}"
ssh = "127.0.0.1"
mac = ["{mac}"]
wol_via = "{via}"
"""


@contextmanager
def served_node(folder: Path, port: int) -> Iterator[FakeNode]:
    """Run a node in a thread of its own."""
    loop, context = asyncio.new_event_loop(), fake_node(folder, port)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        node = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(20)
        try:
            yield node
        finally:
            asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def room() -> Iterator[ServedRoom]:
    with served_room(planned("node2")) as room:
        yield room


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with reserved_ports(1) as (port,), served_node(tmp_path, port) as node:
        yield node


@pytest.fixture
def site(tmp_path: Path, node: FakeNode, room: ServedRoom) -> Path:
    (tmp_path / "password").touch(mode=0o600)
    (tmp_path / "password").write_text("secret\n")
    file = tmp_path / "inventory.toml"
    plan = room.plan
    agent = f'[agent]\nmode = "advise"\nnodes = "node2"\nmin_on = 0\nstate_folder = "{tmp_path}"\n'
    agent += f'[ledger]\nurl = "sqlite:///{tmp_path}/ledger.sqlite"\n'
    (tmp_path / "offpeak.toml").write_text(agent)
    file.write_text(SITE.format(bmc_port=plan.bmc_port, ssh_port=node.port, bmc=plan.bmc_host, mac=MAC, via=node.via))
    return file


@pytest.fixture
def cluster(slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The running cluster, to which this test's commands talk."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_accounting.cluster.conf))
    return slurm_accounting.cluster


def _capabilities(site: Path) -> tuple[str, ...]:
    (machine,) = read_inventory(site).machines
    return machine.enrolled.capabilities if machine.enrolled else ()


@pytest.mark.parametrize(("state", "capability"), [("deep", "standby"), ("shallow", "standby:shallow")])
def test_only_a_drained_node_without_a_job_is_suspended(
    state: str,
    capability: str,
    cluster: SlurmCluster,
    node: FakeNode,
    room: ServedRoom,
    site: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    node.write("sys/power/mem_sleep", f"[s2idle] {state}\n")
    site.write_text(site.read_text().replace('wake = ["wol"]', f'wake = ["wol"], mem_sleep = "{state}"'))
    config = site.with_name("offpeak.toml")
    command = ["enroll", "node2", "--standby-test", "--inventory", str(site), "--device-timeout", "10s"]
    command += ["--config", str(config)]

    def refused_with(reason: str) -> None:
        assert run(command) == 1
        assert f"node2: {reason}; it was not touched\n  hint: close it to jobs" in capsys.readouterr().out
        assert capability not in _capabilities(site)
        assert not any(request.startswith("standby") for request in node.requested)

    refused_with("is not drained: a job may start there")
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        show_job = ("squeue", "--noheader", "--format=%t", f"--jobs={job}")
        wait_until(lambda: cluster.run(*show_job).strip() == "R", what="the job to start")
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=standby-test")
        refused_with(f"runs {job}")
        cluster.run("scancel", job)
        show = ("sinfo", "--noheader", "--nodes=node2", "--partition=batch", "--format=%t")
        wait_until(lambda: cluster.run(*show).strip() == "drain", what="the node to be free")
        advise = config.read_text()
        config.write_text(advise.replace("advise", "shadow"))
        assert run(command) == 1
        output = capsys.readouterr().out
        assert 'standby is only recorded in mode shadow; it was not touched\n  hint: set mode = "advise"' in output
        assert not any(request.startswith("standby") for request in node.requested)
        config.write_text(advise)
        sleep = ["nodes", "node2", "sleep", "--depth", "standby", "--inventory", str(site), "--config", str(config)]
        assert run(sleep) == 1
        assert "node2: its standby is not proven (rule proven)" in capsys.readouterr().err
        assert not any(request.startswith("standby") for request in node.requested)
        assert run(command) == 0
        output = capsys.readouterr().out
        assert "node2: slept after " in output
        assert "woken by wol in " in output
        assert capability in _capabilities(site)
        assert node.read("sys/power/mem_sleep") == f"{state}\n"
        assert not any(room.do(lambda room: [bmc.orders for bmc in room.bmcs.values()]))
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=resume")
