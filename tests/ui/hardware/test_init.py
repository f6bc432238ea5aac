"""`offpeak init` on the stand-ins of Torque and OpenPBS, with answers, without, and interrupted."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin

from offpeak.errors import BadInventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.ui.hardware.init import bmc_addresses, kinds_of, settings_text

OFFPEAK = (sys.executable, "-c", "from offpeak.ui.command import main; main()")
ANSWERS = ("--price", "0.20EUR/kWh", "--bmcs", "10.1.0.[1-3]", "--node-class", "server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with standin("openpbs", tmp_path_factory.mktemp("pbs")) as running:
        yield running


def init(server: StandIn, folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = (*OFFPEAK, *arguments(server, folder), *more)
    environment = {**os.environ, "PATH": server.path}
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def arguments(server: StandIn, folder: Path) -> tuple[str, ...]:
    return ("init", "--folder", str(folder), "--scheduler", server.pbs.kind)


def test_without_a_terminal_the_options_are_the_answers(server: StandIn, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    # What the installation has put there.
    shutil.copy(Path(__file__).parents[3] / "docs/reference/offpeak.toml", folder)
    done = init(server, folder, *ANSWERS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 nodes, node[1-3]" in done.stdout
    assert f"offpeak check --config {folder}/offpeak.toml" in done.stdout
    settings = tomllib.loads((folder / "offpeak.toml").read_text())
    assert settings["agent"]["mode"] == "shadow"
    assert settings["agent"]["nodes"] == "node[1-3]"
    assert settings["prices"] == {"tariff": "on=0.20EUR/kWh,off=0.20EUR/kWh"}
    inventory = read_inventory(folder / "inventory.toml")
    assert {machine.node: machine.bmc for machine in inventory.machines} == {
        f"node{number}": f"10.1.0.{number}" for number in (1, 2, 3)
    }
    again = init(server, folder, *ANSWERS)
    assert again.returncode == 2
    assert "offpeak.toml exists: init does not change it" in again.stderr


def test_without_answers_no_node_can_be_switched(server: StandIn, tmp_path: Path) -> None:
    done = init(server, tmp_path)
    assert done.returncode == 0
    assert "price: not given" in done.stdout
    assert "no BMC: offpeak only orders the queue" in done.stdout
    assert "nodes" not in tomllib.loads((tmp_path / "offpeak.toml").read_text())["agent"]
    assert not any(machine.hardware.driver for machine in read_inventory(tmp_path / "inventory.toml").machines)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--price", "DE-LUX"), "'DE-LUX' is not a known zone"),
        (("--price", "0.20"), "0.20"),
        (("--bmcs", "10.1.0.[1-2]"), "10.1.0.[1-2]: 2 BMCs for 3 nodes"),
        (("--node-class", "sever"), "sever"),
    ],
)
def test_a_wrong_answer_writes_nothing(server: StandIn, tmp_path: Path, wrong: tuple[str, str], message: str) -> None:
    done = init(server, tmp_path, *wrong)
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint:" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_user_who_may_not_write_there_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with standin("torque", tmp_path) as running:
        done = init(running, tmp_path / "file" / "new")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


class Terminal:
    """The command on a terminal, to which a user types."""

    def __init__(self, server: StandIn, folder: Path) -> None:
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.environ["PATH"] = server.path
            os.execv(sys.executable, (*OFFPEAK, *arguments(server, folder)))
        self.output = ""

    def wait_for(self, text: str) -> None:
        until_s = time.monotonic() + 300
        while text not in self.output:
            assert time.monotonic() < until_s, self.output
            if select.select([self.file], [], [], 0.2)[0]:
                self.output += os.read(self.file, 4096).decode()

    def type(self, text: str) -> None:
        self.output = ""
        os.write(self.file, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def test_three_questions_and_a_wrong_answer_is_asked_again(server: StandIn, tmp_path: Path) -> None:
    terminal = Terminal(server, tmp_path)
    terminal.wait_for("Price:")
    terminal.type("DE-LUX\n")
    terminal.wait_for("hint:")
    terminal.type("DE-LU\n")
    terminal.wait_for("BMCs:")
    terminal.type("{node}-bmc\n")
    terminal.wait_for("Are these pairs right?")
    assert "node1 to node3: node1-bmc to node3-bmc, one by one" in terminal.output
    terminal.type("\n")
    terminal.wait_for("Class of the nodes:")
    terminal.type("\n")
    terminal.wait_for("then  offpeak agent")
    assert terminal.code() == 0
    assert tomllib.loads((tmp_path / "offpeak.toml").read_text())["feeds"]["zone"] == "DE-LU"
    assert read_inventory(tmp_path / "inventory.toml").machines[1].bmc == "node2-bmc"


def test_a_wrong_pair_writes_nothing(server: StandIn, tmp_path: Path) -> None:
    terminal = Terminal(server, tmp_path)
    terminal.wait_for("Price:")
    terminal.type("DE-LU\n")
    terminal.wait_for("BMCs:")
    terminal.type("10.1.0.3,10.1.0.[1-2]\n")
    terminal.wait_for("Are these pairs right?")
    assert "node1: 10.1.0.3" in terminal.output
    terminal.type("n\n")
    terminal.wait_for("nothing was written: a BMC does not belong to its node")
    assert terminal.code() == 2
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_writes_nothing(server: StandIn, tmp_path: Path) -> None:
    terminal = Terminal(server, tmp_path)
    terminal.wait_for("Price:")
    terminal.type("DE-LU\n")
    terminal.wait_for("BMCs:")
    os.kill(terminal.child, signal.SIGINT)
    assert terminal.code() == 130
    assert list(tmp_path.iterdir()) == []


def node(name: str, cpus: int = 8, gpus: tuple[tuple[str, int], ...] = ()) -> Node:
    flags = dict.fromkeys(("closed", "failed", "reserved", "planned"), False)
    return Node(
        name=name, native_state="idle", use=NodeUse.FREE, power=PowerState.ON, responds=True, reason="", reason_by="",
        reason_s=None, partitions=(), features=(), cpus=cpus, cpus_used=0, memory_mib=1000, boot_s=None,
        idle_since_s=None, gpus=gpus, **flags,
    )  # fmt: skip


def test_kinds_of_nodes_that_differ() -> None:
    nodes = [node("n1"), node("g1", 64, (("a100", 4),)), node("g2", 64, (("", 2),))]
    assert kinds_of(nodes) == {"n1": "cpu8", "g1": "cpu64-4a100", "g2": "cpu64-2gpu"}
    assert kinds_of(nodes[:1]) == {"n1": "compute"}


def test_ten_thousand_nodes_take_no_time() -> None:
    nodes = [node(f"n{number:05}") for number in range(10_000)]
    begun_s = time.process_time()
    assert set(kinds_of(nodes).values()) == {"compute"}
    assert time.process_time() - begun_s < 1.0


def test_addresses_are_in_the_order_of_the_nodes() -> None:
    assert bmc_addresses("10.0.0.[8-9]", ("n9", "n10")) == {"n9": "10.0.0.8", "n10": "10.0.0.9"}
    assert bmc_addresses("-", ("n9",)) == {}
    with pytest.raises(BadInventory, match="1 BMC for 2 nodes"):
        bmc_addresses("10.0.0.8", ("n9", "n10"))


def test_in_the_system_folder_the_defaults_stay() -> None:
    found = tomllib.loads(settings_text(Path("/etc/offpeak"), "slurm", "n[1-9]", "DE-LU", "server"))
    assert found == {
        "agent": {"mode": "shadow", "scheduler": "slurm", "nodes": "n[1-9]"},
        "power": {"node_class": "server"},
        "feeds": {"zone": "DE-LU"},
    }
