"""The checks, clean-up and messages before offpeak is removed, on a real Slurm and on servers of PBS."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pbs_standin import standin
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import SEARCH_PATH
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.orders import NodeChange
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.settings.agent import PbsSettings


@pytest.fixture
def wake_list(tmp_path: Path) -> Path:
    file = tmp_path / "wake.json"
    file.write_text(json.dumps({"node1": {}, "n1": {}, "[pace]": {}}))
    return file


def leave(repository: Path, wake_list: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [repository / "deploy/package/leave"],
        env={"PATH": SEARCH_PATH, "OFFPEAK_WAKE_LIST": str(wake_list), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def slurm(slurm_accounting: SlurmAccounting, repository: Path) -> Iterator[SlurmCluster]:
    """A Slurm on which offpeak has had its rights, and which still has its snippet."""
    cluster = slurm_accounting.cluster
    shutil.copy(repository / "deploy/slurm/slurm.conf.offpeak", cluster.folder)
    conf = cluster.conf.read_text()
    cluster.run("sacctmgr", "--immediate", "add", "account", "daemons")
    cluster.run("sacctmgr", "--immediate", "add", "user", "offpeak", "account=daemons", "adminlevel=Administrator")
    yield cluster
    cluster.conf.write_text(conf)
    cluster.run("sacctmgr", "--immediate", "delete", "user", "name=offpeak")
    cluster.run("sacctmgr", "--immediate", "delete", "account", "name=daemons")
    shown = cluster.run("scontrol", "--oneliner", "show", "nodes")
    for line in shown.splitlines():
        name = line.split()[0].lower()
        if "+DRAIN" in line:
            cluster.run("scontrol", "update", name, "state=resume")
        cluster.run("scontrol", "update", name, "comment=")


def test_a_slurm_with_a_node_that_is_still_closed(slurm: SlurmCluster, repository: Path, wake_list: Path) -> None:
    for node, why in (("node1", "offpeak: sleeps"), ("node2", "disk broken, not offpeak: ours")):
        slurm.run("scontrol", "update", f"nodename={node}", "state=drain", f"reason={why}")
    for node, why in (("node2", "from rack 7"), ("node3", "offpeak: was off")):
        slurm.run("scontrol", "update", f"nodename={node}", f"comment={why}")
    done = leave(repository, wake_list, SLURM_CONF=str(slurm.conf))
    assert done.returncode == 1
    assert "offpeak: error: offpeak has left closed to jobs: node1\n" in done.stderr
    assert "offpeak agent --restore" in done.stderr
    assert "node2" not in done.stdout + done.stderr
    assert "offpeak: node3: cleared its comment, which was ours\n" in done.stdout
    shown = slurm.run("scontrol", "--oneliner", "show", "nodes")
    assert "Reason=offpeak: sleeps" in shown
    assert "Reason=disk broken, not offpeak: ours" in shown
    assert "Comment=from rack 7" in shown
    assert "was off" not in shown


def test_a_slurm_that_is_as_it_was(slurm: SlurmCluster, repository: Path, wake_list: Path) -> None:
    snippet = slurm.folder / "slurm.conf.offpeak"
    done = leave(repository, wake_list, SLURM_CONF=str(slurm.conf))
    assert (done.returncode, done.stderr) == (0, "")
    assert not snippet.exists()
    assert done.stdout.splitlines() == [
        f"offpeak: removed {snippet}; on the other machines that have it: rm {snippet}",
        "offpeak: Slurm's accounting still has the user offpeak: sacctmgr delete user name=offpeak",
        "offpeak: if nobody else is in its account: sacctmgr delete account name=daemons",
    ]


def test_a_slurm_conf_that_includes_our_lines(slurm: SlurmCluster, repository: Path, wake_list: Path) -> None:
    slurm.conf.write_text(slurm.conf.read_text() + "include slurm.conf.offpeak\n")
    done = leave(repository, wake_list, SLURM_CONF=str(slurm.conf))
    assert done.returncode == 1
    assert f"{slurm.conf} still includes slurm.conf.offpeak" in done.stderr
    assert (slurm.folder / "slurm.conf.offpeak").exists()


def test_a_slurm_that_does_not_answer(tmp_path: Path, repository: Path, wake_list: Path) -> None:
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_CONF": str(tmp_path / "slurm.conf")}
    for program in ("scontrol", "sacctmgr", "pbsnodes"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    (tmp_path / "slurm.conf").write_text("ClusterName=test\n")
    done = leave(repository, wake_list, **environment)
    assert done.returncode == 1
    assert "slurmctld does not answer" in done.stderr
    # Where no agent has ever run there is nothing to look for.
    assert leave(repository, tmp_path / "none", **environment).returncode == 0


@pytest.mark.parametrize("kind", ["openpbs", "torque"])
def test_servers_of_pbs(
    kind: str, tmp_path: Path, repository: Path, wake_list: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = {
        "openpbs": ("qmgr", "-c", 'set node node2 comment = "offpeak: sleeps"'),
        "torque": ("pbsnodes", "-N", "offpeak: sleeps", "node2"),
    }
    with standin(kind, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        clean = leave(repository, wake_list, PATH=running.path)
        assert (clean.returncode, clean.stderr) == (0, "")
        settings = PbsSettings(timeout_s=300)
        scheduler: Scheduler = TorqueScheduler(settings) if kind == "torque" else OpenPbsScheduler(settings)
        for node, change in (
            ("node1", NodeChange.CLOSE),
            ("node1", NodeChange.POWER_DOWN),
            ("node3", NodeChange.CLOSE),
        ):
            assert scheduler.change_nodes([node], change, reason="offpeak: x") == {}
        subprocess.run(stray[kind], check=True, capture_output=True)
        done = leave(repository, wake_list, PATH=running.path)
        assert done.returncode == 1
        assert "offpeak has left switched off: node1\n" in done.stderr
        assert "offpeak-wake-sleepers" in done.stderr
        assert "offpeak has left closed to jobs: node3\n" in done.stderr
        assert "node2" not in done.stderr
        assert (
            f"offpeak: node2: cleared its {'comment' if kind == 'openpbs' else 'note'}, which was ours" in done.stdout
        )


def test_a_node_of_openpbs_that_has_woken_holds_up_no_removal(
    tmp_path: Path, repository: Path, wake_list: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standin("openpbs", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        scheduler = OpenPbsScheduler(PbsSettings(timeout_s=300))
        for change in (NodeChange.CLOSE, NodeChange.POWER_DOWN):
            assert scheduler.change_nodes(["node1", "node2"], change, reason="offpeak: x") == {}
        # As the server does when the node's daemon registers; the mark stays.
        for arguments in ("node1 state -= sleep", "node2 state -= sleep", "node2 comment = 'fan replaced'"):
            subprocess.run(("qmgr", "-c", f"set node {arguments}"), check=True, capture_output=True)
        done = leave(repository, wake_list, PATH=running.path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "offpeak: node1: cleared its mark, which was ours" in done.stdout
        shown = subprocess.run(("pbsnodes", "-a", "-F", "json"), check=True, capture_output=True, text=True).stdout
        assert "offpeak" not in shown
        assert "fan replaced" in shown
