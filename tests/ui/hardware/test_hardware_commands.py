"""`offpeak power`, `check` and `enroll` against BMCs and PDUs that answer, and some that do not."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from served_room import ServedRoom, planned, served_room

from offpeak.machines.inventory_file import read_inventory
from offpeak.process import exclusive_lock
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.node import BmcFaults
from offpeak.ui.command import run

SITE = """\
# The test site.
[credentials]
bmc = {{ user = "admin", password_file = "bmc.password" }}
wrong = {{ user = "operator", password_file = "wrong.password" }}
pdu = {{ password_file = "pdu.community" }}
strange = {{ password_file = "wrong.password" }}

[hardware.compute]
driver = "ipmi"
credential = "bmc"
port = {plan.bmc_port}

[hardware.other]
driver = "ipmi"
credential = "wrong"
port = {plan.bmc_port}

[[machines]]
nodes = "n[1-6]"
hardware = "compute"
bmc = "{bmcs}"

[[machines]]
nodes = "n[7-8]"
hardware = "other"
bmc = "{others}"

[[machines]]
nodes = "n9"
hardware = "compute"
bmc = "bmc.invalid"

[pdus.rack1]
host = "{pdu}"
port = {plan.pdu_port}
family = "apc"
credential = "pdu"
outlets = {{ "1-8" = "n[1-8]", "30" = "n9" }}

[pdus.rack2]
host = "{pdu}"
port = {plan.pdu_port}
credential = "strange"
"""

Offpeak = Callable[..., "Done"]


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def offpeak(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Offpeak:
    """Runs the command in this process: starting one takes longer than what is tested."""
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def offpeak(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return offpeak


@pytest.fixture(scope="module")
def served() -> Iterator[ServedRoom]:
    with served_room(planned("n[1-8]")) as room:
        yield room


@pytest.fixture
def room(served: ServedRoom) -> ServedRoom:
    """All well again."""

    def mend(room: MachineRoom) -> None:
        for bmc in room.bmcs.values():
            bmc.faults, bmc.restore_policy = BmcFaults(), 0

    served.do(mend)
    return served


@pytest.fixture
def site(room: ServedRoom, tmp_path: Path) -> Path:
    """The inventory of that room, of a BMC without a name, and of a PDU with another community."""
    for name, secret in (("bmc.password", "secret"), ("pdu.community", "public"), ("wrong.password", "nonsense")):
        file = tmp_path / name
        file.touch(mode=0o600)
        file.write_text(secret + "\n")
    hosts = room.plan.bmc_hosts
    fields = {"bmcs": ",".join(hosts[:6]), "others": ",".join(hosts[6:]), "pdu": room.plan.pdu_hosts[0]}
    file = tmp_path / "inventory.toml"
    file.write_text(SITE.format(plan=room.plan, **fields))
    return file


def break_some(room: MachineRoom) -> None:
    room.bmcs["n3"].faults = BmcFaults(silent=True)
    room.bmcs["n4"].faults = BmcFaults(guid=uuid.UUID(int=7))
    room.bmcs["n5"].faults = BmcFaults(garbage=True)
    room.bmcs["n6"].restore_policy = 2


def masked(text: str, room: ServedRoom, folder: Path) -> str:
    """Leave out what differs from run to run: addresses, ports, folders, the day, and this machine's scheduler."""
    text = text.replace(room.plan.bmc_host.rpartition(".")[0], "127.0.0").replace(f"{folder}/", "/etc/offpeak/")
    text = re.sub(rf"\b({room.plan.bmc_port}|{room.plan.pdu_port})\b", "623", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "2026-11-21", text)
    rows = [re.sub(r" +", " ", row).rstrip() for row in text.splitlines()]
    return "\n".join(row for row in rows if "scheduler" not in row and "SLURM_CONF" not in row) + "\n"


def test_a_mixed_set_reads_well(
    room: ServedRoom, site: Path, offpeak: Offpeak, golden: Callable[[str, str], None], repository: Path
) -> None:
    assert offpeak("enroll", "n[1-6]", "--inventory", site).returncode == 0
    room.do(break_some)
    done = offpeak("check", "--inventory", site)
    assert (done.returncode, done.stderr) == (1, "")
    text = masked(done.stdout, room, site.parent)
    golden("check_mixed.txt", text)
    page = (repository / "docs" / "reference" / "check.md").read_text()
    assert re.sub(r" +", " ", page.split("```text\n")[1].split("```")[0]) == text
    before = {name: bmc.logins.begun for name, bmc in room.room.bmcs.items()}
    found = json.loads(offpeak("check", "n[1-2]", "--inventory", site, "--json").stdout)
    assert {each["verdict"] for each in found if each["part"] == "bmc"} == {"ok"}
    after = {name: bmc.logins.begun for name, bmc in room.room.bmcs.items()}
    assert {name for name in after if after[name] > before[name]} == {"n1", "n2"}


def test_a_wrong_password_reaches_one_bmc_once(room: ServedRoom, site: Path, offpeak: Offpeak) -> None:
    before = room.do(lambda room: [room.bmcs[name].logins.begun for name in ("n7", "n8")])
    done = offpeak("check", "n[7-8]", "--inventory", site)
    assert done.stdout.splitlines()[-1].endswith("3 failed")
    after = room.do(lambda room: [room.bmcs[name].logins.begun for name in ("n7", "n8")])
    assert sorted(now - then for now, then in zip(after, before, strict=True)) == [0, 1]


def test_a_sound_set_is_ok(room: ServedRoom, site: Path, offpeak: Offpeak) -> None:
    offpeak("enroll", "n[1-6]", "--inventory", site)
    done = offpeak("check", "n[1-6]", "--inventory", site)
    assert re.search(r"^ok +bmc +n\[1-6\] +on, as enrolled, measures power *$", done.stdout, re.MULTILINE)
    assert not any(room.do(lambda room: [bmc.orders for bmc in room.bmcs.values()]))


def test_power_now_tells_place_by_place(room: ServedRoom, site: Path, offpeak: Offpeak) -> None:
    room.do(lambda room: room.nodes["n2"].use(1.0))
    done = offpeak("power", "n[1-3]", "--inventory", site)
    assert done.returncode == 0
    rows = {fields[0]: fields[1:] for fields in map(str.split, done.stdout.splitlines()) if fields}
    assert rows["n1"][:4] == ["200", "W", "200", "W"]
    assert float(rows["n2"][0]) == float(rows["n2"][2]) > 200
    assert "n4" not in rows
    answer = json.loads(offpeak("power", "n[1-3]", "--inventory", site, "--json").stdout)
    assert {reading["node"] for reading in answer["readings"]} == {"n1", "n2", "n3"}
    by_way = {reading["way"]: reading for reading in answer["readings"] if reading["node"] == "n1"}
    assert by_way["snmp"]["part"] == "outlet 1"
    assert by_way["snmp"]["power_w"] == by_way["dcmi"]["power_w"] == 200.0
    room.do(lambda room: room.nodes["n2"].use(0.0))


def test_power_now_of_all_tells_what_is_silent(room: ServedRoom, site: Path, offpeak: Offpeak) -> None:
    room.do(break_some)
    done = offpeak("power", "--inventory", site)
    assert done.returncode == 0
    assert "at its outlets: 1,600 W, 8 of 9 nodes\n" in done.stdout
    assert "by its BMC: 800 W, 4 of 9 nodes\n" in done.stdout
    assert re.search(r"^n9 +no value +\d+ s +the PDU measures no outlet 30 *$", done.stdout, re.MULTILINE)
    assert "- n3 (dcmi): no answer within 5 s\n  hint: is it up?" in done.stdout
    assert "this machine: processors " in done.stdout


def test_an_exchanged_bmc_is_not_believed(room: ServedRoom, site: Path, offpeak: Offpeak) -> None:
    offpeak("enroll", "n[1-6]", "--inventory", site)
    text = site.read_text()
    room.do(lambda room: setattr(room.bmcs["n4"], "faults", BmcFaults(guid=uuid.UUID(int=7))))
    done = offpeak("enroll", "n[1-6]", "--inventory", site)
    assert done.returncode == 1
    assert "known already: n[1-3,5-6] (hard_off, on, soft_off, metered)\n" in done.stdout
    assert "not enrolled: n4: its BMC is 07000000-" in done.stdout
    assert site.read_text() == text
    assert offpeak("enroll", "--replace", "n4", "--inventory", site).returncode == 0
    (n4,) = read_inventory(site).chosen(("n4",))
    assert n4.enrolled
    assert n4.enrolled.identity.startswith("07000000-")
    assert site.read_text().startswith("# The test site.\n")


def test_the_bmc_of_another_node_is_not_enrolled(
    room: ServedRoom, site: Path, offpeak: Offpeak, tmp_path: Path
) -> None:
    def mislead(room: MachineRoom) -> None:
        room.bmcs["n4"].faults = BmcFaults(host_name="n5.a-long-domain.of-the-cluster.example")
        room.bmcs["n6"].faults = BmcFaults(host_name="localhost")

    room.do(mislead)
    done = offpeak("enroll", "n[1-6]", "--inventory", site)
    assert done.returncode == 1
    assert re.search(r"not enrolled: n4: 127\.\S+ is the BMC of n5 by its host name n5\.a-long", done.stdout)
    assert "proven by the identity that the BMC reports: n[1-3,5]\n" in done.stdout
    assert re.search(r"nodes: 1 pair; .*\n  n6: 127\.\S+\n  hint: a file of node, UUID", done.stdout)
    assert "not enrolled: n6: no proof that this BMC belongs to the node\n  hint: compare the pairs" in done.stdout
    assert [machine.node for machine in read_inventory(site).machines if machine.enrolled] == ["n1", "n2", "n3", "n5"]
    assert offpeak("enroll", "n6", "--accept-pairs", "--inventory", site).returncode == 0
    assert read_inventory(site).chosen(("n6",))[0].enrolled
    uuids = {name: room.do(lambda room, name=name: str(room.bmcs[name].guid)) for name in ("n4", "n6")}
    dmi = tmp_path / "dmi.txt"
    dmi.write_text("".join(f"{name} {text}\n" for name, text in uuids.items()))
    done = offpeak("enroll", "n6", "--dmi", dmi, "--inventory", site)
    assert "proven by the identity that the BMC reports: n6\n" in done.stdout


def test_nodes_are_taken_over_from_elsewhere(site: Path, offpeak: Offpeak, tmp_path: Path) -> None:
    export = tmp_path / "devices.csv"
    export.write_text("Name,Status,Type,Rack,Out-of-band IP\nn1,Active,compute,A1,10.1.0.1/16\nx1,Active,blade,A1,\n")
    done = offpeak("enroll", "n1", "--from-netbox", export, "--inventory", site)
    assert f"{export}: 2 nodes, 1 of them new in {site}\n" in done.stdout
    assert "  hint: the addresses of the BMCs of x1 are not known" in done.stdout
    assert [machine.node for machine in read_inventory(site).machines][-1] == "x1"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("power", "n77"), "has no node n77"),
        (("power", "n[1-"), "'n[1-' is not a node set"),
        (("check", "--device-timeout", "5"), "'5' has no unit"),
        (("enroll", "--standby-test"), "--standby-test: name the nodes"),
        (("enroll", "--from-racksdb", "none.yml"), "none.yml: no such file"),
    ],
)
def test_bad_input_is_one_line(site: Path, offpeak: Offpeak, arguments: tuple[str, ...], error: str) -> None:
    text = site.read_text()
    done = offpeak(*arguments, "--inventory", site)
    assert done.returncode == 2
    assert error in done.stderr
    assert done.stderr.count("\n") == 2
    assert done.stdout == ""
    assert site.read_text() == text


def test_standby_is_tested_on_named_nodes_with_such_a_rung_only(site: Path, offpeak: Offpeak) -> None:
    config = site.with_name("offpeak.toml")
    ledger = f"sqlite:///{site.parent}/none/ledger.sqlite"
    config.write_text(f'[agent]\nstate_folder = "{site.parent}"\n[ledger]\nurl = "{ledger}"\n')
    command = ("enroll", "n1", "--standby-test", "--inventory", site, "--config", config)
    with exclusive_lock(site.parent):
        assert "another offpeak switches nodes: process " in offpeak(*command).stderr
    without = offpeak(*command).stderr
    assert "none/ledger.sqlite: No such file or directory\n  hint: `mkdir -p " in without
    (site.parent / "none").mkdir()
    done = offpeak(*command)
    assert done.returncode == 1
    assert "n1: its hardware has no standby\n  hint: docs/how-to/standby.md" in done.stdout
