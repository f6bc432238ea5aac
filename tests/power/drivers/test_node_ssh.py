"""The few things that a node may be asked by ssh, and everything else that it must refuse."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from fake_node import FakeNode, fake_node, known_host, write_key
from node_tree import BOOT, write_tree

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.door.door import Guard
from offpeak.errors import (
    AccessRefused,
    BadAnswer,
    BadInventory,
    NoAnswer,
    NotSupported,
    OrderTooLate,
    WrongDevice,
)
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.check.devices import check_node
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.ssh import NodeProbe, NodeSsh, SshDriver, parse_probe
from offpeak.power.drivers.transport import Transport
from offpeak.tcp_delivery import LONGEST_DELIVERY_S

STANDBY = SleepMethod(NodeOrder.STANDBY, ("wol",), enter_timeout_s=60, wake_timeout_s=60)

Act = Callable[[FakeNode, NodeSsh], Awaitable[Any]]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_ports(1) as (port,):
        yield port


@pytest.fixture
def machine(tmp_path: Path, port: int) -> InventoryNode:
    credential = Credential("nodes", "root", key_file=tmp_path / "key", known_hosts=tmp_path / "known_hosts")
    hardware = Hardware("compute", ssh=credential, ssh_port=port, sleep_methods=(STANDBY,))
    return InventoryNode("n001", hardware, ssh="127.0.0.1")


@pytest.fixture
def on_node(tmp_path: Path, machine: InventoryNode, port: int) -> Callable[..., Any]:
    """Does something with a running node and its client; before it, the node's tree and keys may be spoilt."""

    def run(act: Act, *, timeout_s: float = 120.0) -> Any:
        async def there() -> Any:
            async with fake_node(tmp_path, port) as node:
                return await act(node, NodeSsh(machine, logins=Logins(), timeout_s=timeout_s))

        return asyncio.run(there())

    return run


def test_an_order_that_is_refused_after_the_login_reaches_no_node(on_node: Callable[..., Any], port: int) -> None:
    limits_ms: list[int] = []

    def refuse() -> None:
        limits_ms.extend(delivery_limits_ms(port))
        raise OrderTooLate("the lease is over")

    async def confirm() -> Guard:
        return refuse

    async def act(node: FakeNode, ssh: NodeSsh) -> bool:
        with pytest.raises(OrderTooLate):
            await ssh.standby(600, confirm)
        await ssh.probe()
        return (node.root / "rtcwake.log").exists()

    assert not on_node(act)
    # Without a limit the kernel would deliver the order minutes after the driver has given it up.
    assert limits_ms == [round(LONGEST_DELIVERY_S * 1000)]


def delivery_limits_ms(port: int) -> Iterator[int]:
    """Yield how long the kernel repeats what is lost, of each connection of this process to that port."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError, IndexError), socket.socket(fileno=os.dup(int(descriptor.name))) as connection:
            if connection.getpeername()[1] == port:
                yield connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def test_a_node_says_what_it_is_and_can_do(on_node: Callable[..., Any]) -> None:
    probe = on_node(lambda _node, ssh: ssh.probe())
    assert probe == NodeProbe(
        version="1",
        boot_id=BOOT.format(1),
        uptime_s=1234.56,
        power_states=("freeze", "mem", "disk"),
        mem_sleep=("s2idle", "deep"),
        wake_clock=True,
        wake_on_lan=(("eth0", "g"),),
        gpus=0,
    )
    assert probe.can_stand_by("deep")
    assert probe.can_stand_by("s2idle")
    assert not probe.can_stand_by("shallow")


@pytest.mark.parametrize(
    ("answer", "gpus"),
    [
        ("0, 300.00, 100.00, 300.00, 61.50, 0\n1, 300.00, 100.00, 300.00, 58.10, 0", 2),
        # A vGPU has no limits and no power; MIG has no utilisation.
        ("0, [N/A], [N/A], [N/A], [N/A], 3\n1, 400.00, 100.00, 400.00, 77.10, [N/A]", 2),
        ("0, 300.00, 100.00, 300.00, 61.50, 0\n1, [N/A], [N/A], [N/A], [Unknown Error], [N/A]", 1),
        ("0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]", 0),
        ("Unable to determine the device handle for GPU0000:41:00.0: GPU is lost. Reboot the system", 0),
        ("", 0),
    ],
)
def test_a_probe_counts_the_gpus_that_answer(on_node: Callable[..., Any], answer: str, gpus: int) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.write("usr/bin/nvidia-smi", f"#!/bin/sh\ncat <<END\n{answer}\nEND\n")
        assert (await ssh.probe()).gpus == gpus

    on_node(act)


def test_a_script_of_an_older_release_counts_no_gpus() -> None:
    text = "version=1\nboot_id=x\nuptime_s=1.0\npower_states=\nmem_sleep=\nwake_clock=no\nwake_on_lan=\n"
    assert parse_probe(text, "n1").gpus is None


async def falls_asleep(node: FakeNode) -> None:
    async with asyncio.timeout(300):
        while not node.asleep:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("systemd", [False, True])
def test_standby_arms_the_alarm_and_suspends_after_its_answer(on_node: Callable[..., Any], systemd: bool) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        if systemd:
            node.write("run/systemd/system/x", "")
            node.write("usr/bin/systemctl", f'#!/bin/sh\n[ "$*" = suspend ] && echo mem >"{node.root}/sys/power/state"')
        node.write("sys/power/mem_sleep", "[s2idle] deep\n")
        assert await ssh.standby(600)
        await falls_asleep(node)
        assert node.read("rtcwake.log") == "-m no -s 600\n"
        assert node.read("sys/power/mem_sleep") == "deep\n"
        with pytest.raises(NoAnswer, match="n001: no ssh at"):
            await ssh.probe()

    on_node(act)


@pytest.mark.parametrize("state", ["shallow", "s2idle"])
def test_a_node_without_s3_suspends_to_the_state_of_the_inventory(
    on_node: Callable[..., Any], machine: InventoryNode, state: str
) -> None:
    hardware = replace(machine.hardware, sleep_methods=(replace(STANDBY, mem_sleep=state),))

    async def act(node: FakeNode, _ssh: NodeSsh) -> None:
        node.write("sys/power/state", "freeze standby mem disk\n")
        node.write("sys/power/mem_sleep", "[s2idle] shallow\n")
        driver = SshDriver(replace(machine, hardware=hardware), logins=Logins(), timeout_s=120.0, dead_man_s=700)
        await driver.send(NodeOrder.STANDBY)
        assert node.requested[-1] == f"standby 700 {state}"
        await falls_asleep(node)
        assert node.read("sys/power/mem_sleep") == f"{state}\n"
        assert node.read("rtcwake.log") == "-m no -s 700\n"

    on_node(act)


def test_a_node_refuses_a_sleep_state_that_it_does_not_offer(on_node: Callable[..., Any]) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        with pytest.raises(NotSupported, match="/sys/power/mem_sleep has no shallow"):
            await ssh.standby(600, mem_sleep="shallow")
        assert not node.asleep
        assert not (node.root / "rtcwake.log").exists()

    on_node(act)


def test_a_node_without_an_alarm_clock_says_so(on_node: Callable[..., Any]) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> bool:
        (node.root / "sys/class/rtc/rtc0/wakealarm").unlink()
        return await ssh.standby(600)

    assert on_node(act) is False


@pytest.mark.parametrize(
    ("spoilt", "text", "kind", "message"),
    [
        ("sys/power/state", "freeze disk\n", NotSupported, "/sys/power/state has no mem"),
        ("sys/power/state", "freeze memory\n", NotSupported, "/sys/power/state has no mem"),
        ("sys/power/mem_sleep", "[s2idle]\n", NotSupported, "/sys/power/mem_sleep has no deep"),
        ("proc/77/comm", "slurmstepd\n", BadAnswer, "standby: process 77 belongs to a job"),
        ("proc/78/environ", "HOME=/\0PBS_JOBID=5.head\0A=b\0", BadAnswer, "standby: process 78 belongs to a job"),
        ("proc/79/environ", "SLURM_JOB_ID=5\0", BadAnswer, "standby: process 79 belongs to a job"),
        ("usr/sbin/rtcwake", "#!/bin/sh\nexit 1\n", BadAnswer, "rtcwake did not set the alarm"),
    ],
)
def test_a_node_that_cannot_or_works_does_not_sleep(
    on_node: Callable[..., Any], spoilt: str, text: str, kind: type[Exception], message: str
) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.write(spoilt, text)
        with pytest.raises(kind, match=message) as caught:
            await ssh.standby(600)
        assert type(caught.value) is kind
        assert caught.value.hint
        assert not node.asleep

    on_node(act)


def test_words_that_only_look_like_a_job_do_not_keep_a_node_awake(on_node: Callable[..., Any]) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.write("proc/77/comm", "slurmd\n")
        node.write("proc/77/environ", "OLD=x SLURM_JOB_ID=5\0NOTE=PBS_JOBID\0")
        await ssh.standby(600)

    on_node(act)


def test_a_job_that_comes_within_the_last_second_keeps_it_awake(on_node: Callable[..., Any]) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        await ssh.standby(600)
        node.write("proc/77/comm", "slurmstepd\n")
        async with asyncio.timeout(300):
            while "disable" not in node.read("rtcwake.log"):
                await asyncio.sleep(0.05)
        assert not node.asleep
        assert node.read("rtcwake.log") == "-m no -s 600\n-m disable\n"

    on_node(act)


def test_the_refusal_of_a_request_names_the_permitted_ones(on_node: Callable[..., Any]) -> None:
    async def act(_node: FakeNode, ssh: NodeSsh) -> None:
        with pytest.raises(BadAnswer, match="n001: standby: this key may only ask: probe, standby"):
            await ssh.standby(59)

    on_node(act)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("/usr/bin/head -c 3000000 /dev/zero", BadAnswer, "n001: the answer to probe is too long"),
        ("echo hello", BadAnswer, "n001: an unexpected answer: 'hello\\\\n'"),
        ("printf 'boot_id\\377=\\n'", BadAnswer, "n001: an unexpected answer"),
        ("printf '\\033]0;x\\007no\\nmore' >&2; exit 1", BadAnswer, r"n001: probe: \?\]0;x\?no$"),
        ("exit 127", BadAnswer, "n001: probe: ended with 127"),
    ],
)
def test_a_node_that_runs_something_else_is_not_believed(
    on_node: Callable[..., Any], tmp_path: Path, script: str, kind: type[Exception], message: str
) -> None:
    write_tree(tmp_path, {"other": f"#!/bin/sh\n{script}\n"})

    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.script = tmp_path / "other"
        with pytest.raises(kind, match=message):
            await ssh.probe()

    on_node(act)


def test_a_node_that_only_complains_is_given_up(on_node: Callable[..., Any], tmp_path: Path) -> None:
    write_tree(tmp_path, {"other": "#!/bin/sh\n/usr/bin/head -c 9000000 /dev/zero >&2\n"})

    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.script = tmp_path / "other"
        with pytest.raises(NoAnswer, match="n001: no answer to probe"):
            await ssh.probe()

    on_node(act, timeout_s=5.0)


def test_a_wrong_key_is_tried_once(on_node: Callable[..., Any], tmp_path: Path) -> None:
    async def act(_node: FakeNode, ssh: NodeSsh) -> None:
        right = (tmp_path / "key").read_bytes()
        write_key(asyncssh.generate_private_key("ssh-ed25519"), tmp_path / "key")
        with pytest.raises(AccessRefused, match="n001: refuses the key") as caught:
            await ssh.probe()
        assert "authorized_keys" in caught.value.hint
        for _ in range(2):
            with pytest.raises(AccessRefused, match="not tried"):
                await ssh.probe()
        (tmp_path / "key").write_bytes(right)
        assert (await ssh.probe()).version == "1"

    on_node(act)


def test_another_host_key_is_another_device(on_node: Callable[..., Any], tmp_path: Path, port: int) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        for algorithm in ("ssh-ed25519", "ecdsa-sha2-nistp256"):
            (tmp_path / "known_hosts").write_text(known_host(port, asyncssh.generate_private_key(algorithm)))
            with pytest.raises(WrongDevice, match="its host key is not the one in") as caught:
                await ssh.probe()
            assert f"ssh-keygen -R '[127.0.0.1]:{port}' -f {tmp_path / 'known_hosts'}" in caught.value.hint
        (tmp_path / "known_hosts").write_text("")
        with pytest.raises(WrongDevice, match="has no host key of") as caught:
            await ssh.probe()
        assert f"ssh-keyscan -p {port} 127.0.0.1" in caught.value.hint
        assert node.requested == []

    on_node(act)


def test_a_port_that_listens_and_says_nothing(machine: InventoryNode, tmp_path: Path, port: int) -> None:
    write_key(asyncssh.generate_private_key("ssh-ed25519"), tmp_path / "key")
    (tmp_path / "known_hosts").write_text("")

    with socket.create_server(("127.0.0.1", port)), pytest.raises(NoAnswer, match="n001: no ssh at"):
        asyncio.run(NodeSsh(machine, logins=Logins(), timeout_s=0.3).probe())


def test_answer_of_an_older_script_is_rejected(on_node: Callable[..., Any]) -> None:
    async def act(node: FakeNode, ssh: NodeSsh) -> None:
        node.write("proc/sys/kernel/random/boot_id", "")
        with pytest.raises(BadAnswer, match="n001: an unexpected answer"):
            await ssh.probe()

    on_node(act)


def test_keys_and_known_hosts_are_needed_and_private(machine: InventoryNode, tmp_path: Path) -> None:
    def fails(message: str) -> None:
        with pytest.raises(BadInventory, match=message) as caught:
            asyncio.run(NodeSsh(machine, logins=Logins()).probe())
        assert caught.value.hint

    fails("known_hosts: no such file")
    (tmp_path / "known_hosts").write_text("")
    fails("key: cannot be read: No such file")
    (tmp_path / "key").write_text("rubbish")
    fails("not a private key without a passphrase")
    write_key(asyncssh.generate_private_key("ssh-ed25519"), tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    fails("readable by others than its owner")
    for credential, message in (
        (None, "hardware.compute: has no ssh"),
        (Credential("nodes", "root"), "credentials.nodes: has no key_file"),
        (Credential("nodes", "root", key_file=tmp_path / "key"), "credentials.nodes: has no known_hosts"),
    ):
        with pytest.raises(BadInventory, match=message):
            NodeSsh(InventoryNode("n001", Hardware("compute", ssh=credential)), logins=Logins())


def test_the_driver_offers_standby_to_nodes_that_can(on_node: Callable[..., Any], machine: InventoryNode) -> None:
    async def act(node: FakeNode, _ssh: NodeSsh) -> None:
        driver = SshDriver(machine, logins=Logins(), timeout_s=120.0, dead_man_s=700)
        assert driver.orders == frozenset()
        node.write("sys/power/mem_sleep", "[s2idle]\n")
        assert (await driver.query()).state is PowerState.ON
        with pytest.raises(NotSupported, match="n001: does not support standby by ssh"):
            await driver.send(NodeOrder.STANDBY)
        node.write("sys/power/mem_sleep", "s2idle [deep]\n")
        assert (await driver.query()).state is PowerState.ON
        assert driver.orders == {NodeOrder.STANDBY}
        with pytest.raises(NotSupported):
            await driver.send(NodeOrder.SOFT_OFF)
        await driver.send(NodeOrder.STANDBY)
        assert node.requested[-1] == "standby 700"
        await falls_asleep(node)
        observed = await driver.query()
        assert observed.state is PowerState.UNKNOWN
        assert isinstance(observed.error, NoAnswer)

    on_node(act)


def test_the_check_tells_whether_standby_is_offered_and_proven(
    on_node: Callable[..., Any], machine: InventoryNode
) -> None:
    machine = replace(machine, mac="52:54:00:12:34:56")
    shallow = replace(machine.hardware, sleep_methods=(replace(STANDBY, mem_sleep="shallow"),))

    async def act(node: FakeNode, _ssh: NodeSsh) -> None:
        async def found(machine: InventoryNode) -> tuple[str, str, str]:
            (finding,) = await check_node(machine, Transport(timeout_s=120.0))
            return finding.verdict, finding.message, finding.hint

        proven = replace(machine, enrolled=Enrolment("guid", ("standby",), "2026-11-21"))
        assert await found(proven) == ("ok", "answers, can stand by, has an alarm clock", "")
        assert (await found(machine))[:2] == ("look", "can stand by, but has not proven it")
        assert await found(replace(proven, hardware=shallow)) == (
            *("failed", "offers no standby by shallow"),
            "it offers s2idle, deep: set mem_sleep below [hardware.compute.standby], or leave out that table",
        )
        node.write("sys/power/mem_sleep", "[s2idle] shallow\n")
        assert (await found(replace(proven, hardware=shallow)))[:2] == ("look", "can stand by, but has not proven it")
        node.write("sys/power/state", "disk\n")
        assert (await found(proven))[1:] == ("offers no standby by deep", "leave out [hardware.compute.standby]")

    on_node(act)
