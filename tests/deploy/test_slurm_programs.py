"""Slurm's programs: they tell the agent, and where there is none, nodes are woken and never switched off."""

import ast
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_socket import agent_socket
from ipmi_fixtures import MachineOf
from open_folder import open_folder
from own_certificate import write_certificate
from redfish_peer import SESSIONS, SYSTEM, UUID, redfish_peer
from slurm_programs import DEPLOYED, NAMES, SlurmPrograms, slurm_programs
from wake_listener import wake_listener

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from benchmarks.local_slurm.processes import end_processes_with, wait_until
from offpeak.errors import OffpeakError
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, Inventory, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.power.wake_list import make_wake_list, write_wake_list
from offpeak.services.agent.requests import NodeRequest, WakeReply

MAC = "aa:bb:cc:dd:ee:ff"
PACKET = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="acts as other users: needs root")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[SlurmPrograms]:
    made = slurm_programs(tmp_path)
    yield made
    end_processes_with("OFFPEAK_SLURM_LOG", made.log)


def know(programs: SlurmPrograms, *machines: InventoryNode) -> None:
    write_wake_list(programs.state, make_wake_list(Inventory(programs.state / "inventory.toml", machines)))


def log_lines(programs: SlurmPrograms, *, lines: int) -> list[str]:
    wait_until(lambda: len(programs.lines()) >= lines, what="the log", log=programs.log)
    return programs.lines()


def test_runs_on_the_oldest_python_of_head_nodes() -> None:
    ast.parse((DEPLOYED / "offpeak-resume").read_text(), feature_version=(3, 6))
    assert {(DEPLOYED / name).resolve() for name in NAMES} == {DEPLOYED / "offpeak-resume"}


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_gets_the_request(programs: SlurmPrograms, name: str) -> None:
    with agent_socket(programs.socket) as agent:
        done = programs.run(name, "node[1-3,07]")
    what = name.removeprefix("offpeak-").replace("-", "_")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert agent.requests == [NodeRequest(what, ("node1", "node2", "node3", "node07"), "")]
    assert programs.lines() == [f"node[1-3,07]: reported to the agent: {what}"]


def test_the_agent_gets_slurms_file_of_jobs(programs: SlurmPrograms) -> None:
    file = programs.folder / "jobs.json"
    file.write_text('{"jobs": [{"job_id": 1, "nodes": "n1"}]}')
    with agent_socket(programs.socket) as agent:
        programs.run("offpeak-resume", "n1", SLURM_RESUME_FILE=str(file))
        programs.run("offpeak-resume", "n2", SLURM_RESUME_FILE="/nowhere")
    assert [request.text for request in agent.requests] == [file.read_text(), ""]


def test_without_an_agent_a_node_that_is_off_is_woken_and_one_that_is_on_left_alone(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    off, on, _ = few_bmcs
    off.write("power", "off")
    know(programs, machine_of(off, node="n1"), machine_of(on, node="n2"))
    assert programs.run("offpeak-resume", "n[1-3]").returncode == 0
    first, *others = log_lines(programs, lines=4)
    assert first.startswith("n[1-3]: the agent was not reached, waking without it: ")
    assert sorted(others) == [
        f"n1: was off: its BMC {off.host} was ordered to switch it on",
        "n2: is on, left alone",
        f"n3: cannot be woken: {programs.state}/wake.json has no way to it",
    ]
    assert (off.lines("power"), off.lines("orders"), on.lines("orders")) == (["on"], ["on"], [])


def test_suspend_without_an_agent_does_nothing(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    know(programs, machine_of(few_bmcs[0]))
    for name in ("offpeak-suspend", "offpeak-resume-fail"):
        assert programs.run(name, "n1").returncode == 0
    assert all("nothing is done" in line for line in log_lines(programs, lines=2))
    assert few_bmcs[0].lines("orders") == []


def test_an_agent_that_hangs_or_refuses_counts_as_none(programs: SlurmPrograms) -> None:
    with wake_listener() as card:
        know(programs, InventoryNode("n1", Hardware("old"), mac=MAC, wol_via=card.via))
        with socket.socket(socket.AF_UNIX) as hanging:
            hanging.bind(os.fspath(programs.socket))
            hanging.listen()
            began_s = time.monotonic()
            assert programs.run("offpeak-resume", "n1").returncode == 0
            assert time.monotonic() - began_s >= 2
        assert card.packet() == PACKET
        with agent_socket(programs.socket) as agent:
            agent.refuse = OffpeakError("n1 is not in the inventory")
            programs.run("offpeak-resume", "n1")
        assert card.packet() == PACKET
    assert any("n1 is not in the inventory" in line for line in log_lines(programs, lines=4))


FAST = {"OFFPEAK_TIME_SCALE": "0.005"}
"""Looks again within 0.3 to 0.6 s."""


def test_program_wakes_nodes_that_the_agent_does_not(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    names = ("n1", "n2", "n3")
    for bmc in few_bmcs[:2]:
        bmc.write("power", "off")
    know(programs, *(machine_of(bmc, node=name) for bmc, name in zip(few_bmcs, names, strict=True)))
    with agent_socket(programs.socket) as agent:
        agent.replies = [WakeReply(("n1", "n3"), refused={"n2": "its state is not known"})]
        programs.run("offpeak-resume", "n[1-3]", **FAST)
        wait_until(lambda: few_bmcs[0].lines("orders") == ["on"], what="the look again", log=programs.log)
        wait_until(lambda: "n3: is on, left alone" in programs.lines(), what="the last line", log=programs.log)
        assert agent.requests[0].requested_s_ago is None
        assert ("n1", "n3") in [request.nodes for request in agent.requests[1:]]
        assert 0.3 <= agent.requests[1].requested_s_ago < 300
    first, *lines = programs.lines()
    assert first == "n[1-3]: reported to the agent, waking those that it does not: n2: its state is not known"
    assert f"n2: was off: its BMC {few_bmcs[1].host} was ordered to switch it on" in lines
    assert "n1,n3: looking again whether they are on" in lines
    assert [bmc.lines("orders") for bmc in few_bmcs] == [["on"], ["on"], []]


def test_a_node_that_sleeps_again_is_not_woken_while_the_agent_restarts(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    names = ("n1", "n2", "n3")
    for bmc in few_bmcs:
        bmc.write("power", "off")
    know(programs, *(machine_of(bmc, node=name) for bmc, name in zip(few_bmcs, names, strict=True)))
    # As Slurm 22.05 shows a node that came up and was put to sleep, one that it waits for, and one that a job has.
    states = {"n1": "IDLE+DRAIN+POWERED_DOWN", "n2": "MIXED+POWERING_UP+NOT_RESPONDING", "n3": "ALLOCATED+POWERED_DOWN"}
    shown = "\n".join(f"NodeName={name} CPUTot=4 State={state} ThreadsPerCore=1" for name, state in states.items())
    scontrol = programs.folder / "scontrol"
    scontrol.write_text(f"#!/bin/sh\n[ $2 = hostnames ] && exit 1\necho '{shown}'\n")
    scontrol.chmod(0o755)
    with agent_socket(programs.socket) as agent:
        agent.replies = [WakeReply(names)]
        programs.run("offpeak-resume", "n[1-3]", **FAST, PATH=f"{programs.folder}:/usr/bin:/bin")
        wait_until(lambda: programs.lines(), what="the report", log=programs.log)
    orders = lambda: [bmc.lines("orders") for bmc in few_bmcs[1:]]  # noqa: E731
    wait_until(lambda: orders() == [["on"], ["on"]], what="the look again", log=programs.log)
    assert "n2,n3: looking again whether they are on" in programs.lines()
    assert few_bmcs[0].lines("orders") == []


def test_nodes_that_wait_for_the_pace_do_not_delay_the_look_at_the_others(programs: SlurmPrograms) -> None:
    names = tuple(f"n{number}" for number in range(1, 7))
    with wake_listener() as card:
        nodes = Inventory(
            programs.state / "inventory.toml",
            tuple(InventoryNode(name, Hardware("old"), mac=MAC, wol_via=card.via) for name in names),
        )
        write_wake_list(programs.state, make_wake_list(nodes), {"at_once": 1, "every_s": 60.0})
        with agent_socket(programs.socket) as agent:
            agent.replies = [WakeReply(("n6",), refused=dict.fromkeys(names[:5], "its state is not known"))]
            # The five take 4.8 s in this scale, and the look again begins after 1.2 to 2.4 s.
            programs.run("offpeak-resume", "n[1-6]", OFFPEAK_TIME_SCALE="0.02")
            wait_until(lambda: len(agent.requests) > 1, what="the look again", log=programs.log)
            assert agent.requests[1].nodes == ("n6",)


def test_nodes_that_the_agent_holds_back_are_left_off_or_waited_for(programs: SlurmPrograms) -> None:
    with wake_listener() as held, wake_listener() as paced:
        cards = {"n1": held, "n2": paced}
        know(
            programs, *(InventoryNode(name, Hardware("old"), mac=MAC, wol_via=card.via) for name, card in cards.items())
        )
        with agent_socket(programs.socket) as agent:
            left, waiting = {"n1": "held by jo: new DIMM"}, {"n2": "120 nodes were ordered to wake within 60 s"}
            agent.replies = [*[WakeReply(("n1", "n2"), left, waiting)] * 3, WakeReply(("n2",))]
            programs.run("offpeak-resume", "n[1-2]", **FAST)
            assert paced.packet() == PACKET
            assert len(agent.requests) == 4
            assert [request.nodes for request in agent.requests[1:]] == [("n2",)] * 3
        held.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            held.packet()
    assert programs.lines()[0] == "n[1-2]: reported to the agent: resume"


def test_an_agent_that_dies_after_its_promise_is_not_waited_for(programs: SlurmPrograms) -> None:
    with wake_listener() as card:
        know(programs, InventoryNode("n1", Hardware("old"), mac=MAC, wol_via=card.via))
        with agent_socket(programs.socket):
            programs.run("offpeak-resume", "n1", **FAST)
        assert card.packet() == PACKET


def test_a_board_that_says_on_in_standby_gets_its_packets(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    plain = machine_of(few_bmcs[0])
    hardware = Hardware(**vars(plain.hardware) | {"sleep_methods": (SleepMethod(NodeOrder.STANDBY, ("wol",), 60, 60),)})
    with wake_listener() as card:
        know(programs, InventoryNode("n1", hardware, bmc=plain.bmc, mac=MAC, wol_via=card.via))
        programs.run("offpeak-resume", "n1")
        assert log_lines(programs, lines=2)[1] == "n1: is on, left alone, but for 3 packets"
        assert card.packet() == PACKET


@pytest.mark.parametrize("secure", [True, False])
def test_by_redfish(programs: SlurmPrograms, tmp_path: Path, secure: bool) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    certificate = write_certificate(tmp_path / "bmc.pem", "127.0.0.1") if secure else None
    hardware = Hardware(
        "new",
        driver="redfish",
        credential=Credential("bmc", "admin", secret),
        verify=certificate or True,
    )
    with redfish_peer(certificate) as bmc:
        bmc.resources[SYSTEM]["PowerState"] = "Off"
        know(programs, InventoryNode("n1", hardware, bmc=bmc.url, enrolled=Enrolment(UUID, (), "2026-11-01")))
        programs.run("offpeak-resume", "n1")
        assert log_lines(programs, lines=2)[1] == f"n1: was off: its BMC {bmc.url} was ordered to switch it on"
        programs.run("offpeak-resume", "n1")
        assert log_lines(programs, lines=4)[3] == "n1: is on, left alone"
        assert bmc.resets == ["On"]


@pytest.mark.parametrize(("password", "sent", "logins"), [("secret", ["On"], 2), ("wrong", [], 1)])
def test_a_bmc_that_refuses_basic_authentication_gets_a_session(
    programs: SlurmPrograms, tmp_path: Path, password: str, sent: list[str], logins: int
) -> None:
    secret = tmp_path / "password"
    secret.write_text(password)
    hardware = Hardware("new", driver="redfish", credential=Credential("bmc", "admin", secret))
    with redfish_peer() as bmc:
        bmc.resources[SYSTEM]["PowerState"], bmc.sessions_only = "Off", True
        know(programs, InventoryNode("n1", hardware, bmc=bmc.url))
        programs.run("offpeak-resume", "n1", **FAST)
        log_lines(programs, lines=2 if sent else 4)
        assert bmc.requested.count(f"POST {SESSIONS}") == logins
        assert (bmc.resets, bmc.sessions) == (sent, {})


def test_a_password_does_not_go_where_a_bmc_leads(programs: SlurmPrograms, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    hardware = Hardware("new", driver="redfish", credential=Credential("bmc", "admin", secret))
    with redfish_peer() as bmc:
        bmc.resources["/redfish/v1/"] = {"Systems": {"@odata.id": "//elsewhere/redfish/v1/Systems"}}
        know(programs, InventoryNode("n1", hardware, bmc=bmc.url))
        programs.run("offpeak-resume", "n1")
        assert "leads elsewhere" in log_lines(programs, lines=2)[1]


@pytest.mark.parametrize(
    "arguments",
    [[], [""], ["n1", "n2"], ["$(touch x)"], ["n1;reboot"], ["-f"], ["--wake"], ["--wake", "-f"], ["n1\nn2"]],
)
def test_bad_input_is_one_line(programs: SlurmPrograms, arguments: list[str]) -> None:
    assert programs.run("offpeak-resume", *arguments).returncode == 2
    assert [line.partition(",")[0] for line in programs.lines()] == ["takes one hostlist such as node[1-3]"]


SITES_OWN = """#!/bin/sh
echo "$0 $*: $(cat "$SLURM_RESUME_FILE" 2>/dev/null)" >>"{said}"
exit 7
"""


def hand_on(programs: SlurmPrograms, *, kinds: tuple[str, ...] = ("resume", "suspend", "resume_fail")) -> Path:
    """Give cloud[1-20] to programs of the site, and return what these have said."""
    said, lines = programs.folder / "said", ["[next_program]", "nodes = cloud[1-20]"]
    for kind in kinds:
        program = programs.folder / kind
        program.write_text(SITES_OWN.format(said=said))
        program.chmod(0o755)
        lines.append(f"{kind} = {program}")
    programs.next_program.write_text("\n".join(lines))
    return said


JOBS = {"all_nodes_resume": "cloud[7-8],n[1-3]", "jobs": [{"job_id": 1, "nodes_resume": "n[1-2]"}]}
MIXED = {"job_id": 2, "nodes_alloc": "cloud[6-8],n[2-3]", "nodes_resume": "cloud[7-8],n[2-3]"}


@pytest.mark.parametrize("name", NAMES)
def test_the_sites_own_nodes_are_handed_to_its_own_program(programs: SlurmPrograms, name: str) -> None:
    said, file, what = hand_on(programs), programs.folder / "jobs.json", name.removeprefix("offpeak-").replace("-", "_")
    file.write_text(json.dumps(JOBS | {"jobs": [*JOBS["jobs"], MIXED]}))
    with agent_socket(programs.socket) as agent:
        done = programs.run(name, "cloud[7-8],n[1-3]", SLURM_RESUME_FILE=str(file))
        assert done.returncode == 7
        wait_until(lambda: len(agent.requests) == 1, what="the background to tell the agent", log=programs.log)
        assert programs.run(name, "cloud9").returncode == 7
        assert programs.run(name, "n4").returncode == 0
    assert [(each.what, each.nodes) for each in agent.requests] == [(what, ("n1", "n2", "n3")), (what, ("n4",))]
    first, second = said.read_text().splitlines()
    command, _, given = first.partition(": ")
    assert command == f"{programs.folder / what} cloud7,cloud8"
    theirs = MIXED | {"nodes_resume": "cloud7,cloud8"}
    assert json.loads(given) == {"all_nodes_resume": "cloud7,cloud8", "jobs": [theirs]}
    assert second == f"{programs.folder / what} cloud9: "


def test_no_node_is_lost_where_the_agent_hangs_and_the_program_is_ended(programs: SlurmPrograms) -> None:
    said = hand_on(programs, kinds=("resume",))
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(programs.socket))
        agent.listen()
        running = programs.started("offpeak-resume", "cloud7,n1")
        with agent.accept()[0]:
            # Within the time for which it waits for the agent.
            time.sleep(0.5)
            running.send_signal(signal.SIGTERM)
            running.wait(60)
            wait_until(said.exists, what="the site's own program", log=programs.log, seconds=20)
            wait_until(lambda: "n1: cannot be woken" in programs.log.read_text(), what="our part", log=programs.log)


def test_the_sites_program_gets_the_whole_file_where_no_part_can_be_made(programs: SlurmPrograms) -> None:
    """A file that is too long to be read, and a disk that is full."""
    said, file, command = hand_on(programs), programs.folder / "jobs.json", programs.wrapped("offpeak-resume")
    file.write_text(json.dumps(JOBS | {"features": "f" * 1024**2}))
    assert programs.run("offpeak-resume", "cloud1", SLURM_RESUME_FILE=str(file)).returncode == 7
    assert said.read_text().endswith(f"{file.read_text()}\n")
    file.write_text(json.dumps(JOBS))
    full, environment = ["prlimit", "--fsize=0", command, "cloud1"], {"SLURM_RESUME_FILE": str(file)}
    assert subprocess.run(full, env=environment, capture_output=True, timeout=300, check=False).returncode == 7


@pytest.mark.parametrize("fault", ["writable", "damaged", "another section", "no nodes"])
def test_a_file_that_is_not_to_be_trusted_hands_no_node_on(programs: SlurmPrograms, fault: str) -> None:
    said = hand_on(programs)
    texts = {"damaged": "nodes", "another section": "[other]\nnodes = cloud1", "no nodes": "[next_program]"}
    if fault == "writable":
        programs.next_program.chmod(0o666)
    else:
        programs.next_program.write_text(texts[fault])
    with agent_socket(programs.socket) as agent:
        assert programs.run("offpeak-resume", "cloud1").returncode == 0
    assert [each.nodes for each in agent.requests] == [("cloud1",)]
    assert "no node is handed on" in programs.lines()[0]
    assert not said.exists()


def test_what_the_site_has_no_program_for_is_said(programs: SlurmPrograms) -> None:
    hand_on(programs, kinds=("resume",))
    (programs.folder / "resume").chmod(0o644)
    assert programs.run("offpeak-suspend", "cloud1").returncode == 0
    assert programs.run("offpeak-resume", "cloud1").returncode == 1
    assert programs.lines()[0] == f"cloud1: {programs.next_program} names no program for them"
    assert programs.lines()[2] == f"cloud1: {programs.folder / 'resume'}: Permission denied"


@pytest.mark.parametrize("text", [None, "", "[]", "{]", '{"n1": 7}', '{"n1": {"way": "magic"}}'])
def test_a_list_that_is_not_there_or_damaged(programs: SlurmPrograms, text: str | None) -> None:
    if text is not None:
        (programs.state / "wake.json").write_text(text)
    assert programs.run("offpeak-resume", "n1").returncode == 0
    assert "n1: cannot be woken" in log_lines(programs, lines=2)[1]


def test_the_background_hears_signals_that_slurmctld_blocks(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    know(programs, machine_of(few_bmcs[0]))
    few_bmcs[0].freeze()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        programs.run("offpeak-resume", "n1")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    wait_until(lambda: "SigBlk:\t0000000000000000\n" in status_of_ipmitool(programs), what="an ipmitool")


def status_of_ipmitool(programs: SlurmPrograms) -> str:
    sign = f"OFFPEAK_SLURM_LOG={programs.log}".encode()
    left = [folder for folder in Path("/proc").glob("[0-9]*") if sign in environ_of(folder)]
    return next((status for status in map(status_of, left) if status.startswith("Name:\tipmitool\n")), "")


def environ_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def status_of(process: Path) -> str:
    try:
        return (process / "status").read_text()
    except OSError:
        return ""


def test_without_standard_input_and_output_the_log_is_whole(programs: SlurmPrograms) -> None:
    with wake_listener() as card:
        know(programs, InventoryNode("n1", Hardware("old"), mac=MAC, wol_via=card.via))
        closed = f"exec {DEPLOYED}/offpeak-resume n1 <&- >&- 2>&-"
        subprocess.run(["sh", "-c", closed], env=programs.environment, check=True)
        assert log_lines(programs, lines=2)[1] == f"n1: 3 packets sent to {card.via}"


@AS_ROOT
def test_root_acts_as_the_lists_owner(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    few_bmcs[0].write("power", "off")
    know(programs, machine_of(few_bmcs[0]))
    os.chown(programs.state / "wake.json", 65534, 65534)
    programs.run("offpeak-resume", "n1")
    assert any("not woken, attempt 1 of 3: ipmitool" in line for line in log_lines(programs, lines=3))
    assert few_bmcs[0].lines("orders") == []


@AS_ROOT
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_root_acts_as_the_owner_of_the_lists_folder_whatever_is_put_there(
    programs: SlurmPrograms, few_bmcs: list[SimulatedBmc], machine_of: MachineOf, link: Callable[[Path, Path], None]
) -> None:
    few_bmcs[0].write("power", "off")
    know(programs, machine_of(few_bmcs[0]))
    of_root = programs.state.parent / "of_root.json"
    (programs.state / "wake.json").rename(of_root)
    link(of_root, programs.state / "wake.json")
    os.chown(programs.state, 65534, 65534)
    programs.run("offpeak-resume", "n1")
    assert "wake.json" in log_lines(programs, lines=2)[1]
    assert few_bmcs[0].lines("orders") == []


@pytest.mark.parametrize("kind", ["symlink", "link", "fifo"])
def test_the_log_is_written_into_no_other_file(programs: SlurmPrograms, kind: str) -> None:
    other = programs.log.with_name("of_root")
    other.write_text("as it was\n")
    if kind == "fifo":
        os.mkfifo(programs.log)
    else:
        getattr(os, kind)(other, programs.log)
    programs.run("offpeak-suspend", "n1")
    assert other.read_text() == "as it was\n"


@AS_ROOT
def test_user_without_access_to_the_wake_list_asks_its_owner() -> None:
    with open_folder() as folder:
        (folder / "wake.json").write_text(json.dumps({}))
        (folder / "wake.json").chmod(0o600)
        log = folder / "log"
        log.touch()
        log.chmod(0o666)
        names = {"OFFPEAK_SOCKET": "/nowhere", "OFFPEAK_STATE_FOLDER": str(folder), "OFFPEAK_SLURM_LOG": str(log)}
        program = folder / "offpeak-resume"
        program.write_bytes((DEPLOYED / "offpeak-resume").read_bytes())
        program.chmod(0o755)
        subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", program, "n1"], env=names, check=True)
        wait_until(lambda: len(log.read_text().splitlines()) == 2, what="the log", log=log)
        assert "may not read" in log.read_text().splitlines()[1]
        assert "sudo" in log.read_text().splitlines()[1]
        end_processes_with("OFFPEAK_SLURM_LOG", log)


@pytest.mark.parametrize(
    "hostlist", ["n[1-99999999]", "a[1-9999]b[1-9999]", "n[1-60000],m[1-60000]", "n[1-" + "9" * 5000 + "]"]
)
def test_a_hostlist_of_too_many_nodes_costs_no_memory(programs: SlurmPrograms, hostlist: str) -> None:
    know(programs)
    # With 512 MiB of address space, and without Slurm's own command.
    arguments = ["prlimit", "--as=536870912", DEPLOYED / "offpeak-resume", "--wake", hostlist]
    environment = programs.environment | {"PATH": "/usr/bin:/bin", "SLURM_CONF": "/nonexistent"}
    done = subprocess.run(arguments, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 1
    (line,) = log_lines(programs, lines=1)
    assert line == f"{hostlist:.80}: cannot be woken: names more than 100000 nodes"
