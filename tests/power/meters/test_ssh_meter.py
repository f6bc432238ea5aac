"""A node's own counters and sensors, read through the script that a node really runs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_node import FakeNode, fake_node
from node_tree import BOOT

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.errors import BadAnswer, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.port import Reading
from offpeak.power.meters.ssh import SshMeter, parse_meters

NOON = 1_795_219_200.0
ENERGY = "sys/class/powercap/intel-rapl:0/energy_uj"

OnNode = Callable[[Callable[[FakeNode, SshMeter], Awaitable[Any]]], Any]


@pytest.fixture
def on_node(tmp_path: Path) -> Iterator[OnNode]:
    with reserved_ports(1) as (port,):
        credential = Credential("nodes", "root", key_file=tmp_path / "key", known_hosts=tmp_path / "known_hosts")
        machine = InventoryNode("n001", Hardware("compute", ssh=credential, ssh_port=port), ssh="127.0.0.1")

        def run(act: Callable[[FakeNode, SshMeter], Awaitable[Any]]) -> Any:
            async def there() -> Any:
                async with fake_node(tmp_path, port) as node:
                    return await act(node, SshMeter(machine, logins=Logins(), timeout_s=120.0, now=lambda: NOON))

            return asyncio.run(there())

        yield run


def test_a_node_is_read_twice_and_its_counter_wraps(on_node: OnNode) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        package, board = await meter.read()
        assert package.why == "first reading: power comes with the next one"
        assert board == Reading("n001", "hwmon", "power_meter power1", 212.0, NOON, node="n001", resolution_w=1e-6)
        node.write("proc/uptime", "1244.56 5000.00\n")
        node.write(ENERGY, "999999150\n")
        package, _ = await meter.read()
        assert (package.way, package.part, package.node) == ("rapl", "package-0", "n001")
        assert package.power_w == pytest.approx(100.0)

    on_node(act)


SMI = "#!/bin/sh\ncat <<END\n{}\nEND\n"


def test_each_gpu_of_nvidia_is_idle_or_busy_or_not_known(on_node: OnNode) -> None:
    # nvidia-smi 535 on a node whose second GPU is in an error state, and whose last one is divided (MIG).
    answer = (
        "0, 300.00, 100.00, 300.00, 231.50, 98\n1, [N/A], [N/A], [N/A], [Unknown Error], [N/A]\n"
        "2, 300.00, 100.00, 300.00, 41.00, 0\n3, 400.00, 100.00, 400.00, 77.10, [N/A]"
    )

    async def act(node: FakeNode, meter: SshMeter) -> None:
        node.write("usr/bin/nvidia-smi", SMI.format(answer))
        gpus = [reading for reading in await meter.read() if reading.way == "gpu"]
        assert [(gpu.part, gpu.power_w, gpu.why) for gpu in gpus] == [
            ("GPU 0 idle", None, "it is busy"),
            ("GPU 0 busy", 231.5, ""),
            ("GPU 1 idle", None, "its power is not known"),
            ("GPU 1 busy", None, "its power is not known"),
            ("GPU 2 idle", 41.0, ""),
            ("GPU 2 busy", None, "it is idle"),
            ("GPU 3 idle", None, "its utilisation is not known"),
            ("GPU 3 busy", None, "its utilisation is not known"),
            ("GPU 3", 77.1, ""),
        ]

    on_node(act)


def test_the_gpus_of_amd_are_named_by_their_device(on_node: OnNode) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        for bus, use in (("c1", "0\n"), ("c6", "97\n")):
            device = f"sys/bus/pci/devices/0000:{bus}:00.0"
            node.write(f"{device}/gpu_busy_percent", use)
            node.write(f"{device}/hwmon/hwmon5/name", "amdgpu\n")
            node.write(f"{device}/hwmon/hwmon5/power1_input", "140250000\n")
        gpus = [reading for reading in await meter.read() if reading.way == "gpu" and reading.power_w is not None]
        assert [(gpu.part, gpu.power_w) for gpu in gpus] == [
            ("GPU 0000:c1:00.0 idle", 140.25),
            ("GPU 0000:c6:00.0 busy", 140.25),
        ]

    on_node(act)


def test_a_hanging_nvidia_smi_holds_nothing_up_and_is_not_started_again(on_node: OnNode) -> None:
    # Like a process that waits for a GPU that fell off the bus, it cannot be ended.
    hangs = """\
#!/bin/sh
trap '' TERM
echo started >>{root}/starts
exec 1>&- 2>&-
setsid sh -c 'trap "" TERM; sleep 400' &
wait
"""

    async def act(node: FakeNode, meter: SshMeter) -> None:
        node.write("usr/bin/nvidia-smi", hangs.format(root=node.root))
        for program in ("timeout", "flock"):
            (node.root / "usr/bin" / program).symlink_to(f"/usr/bin/{program}")
        for _ in range(2):
            assert [reading.way for reading in await meter.read()] == ["rapl", "hwmon"]
        assert node.read("starts") == "started\n"

    on_node(act)


@pytest.mark.parametrize(
    "answer", ["", "No devices were found", "Failed to initialize NVML: Driver/library version mismatch"]
)
def test_a_driver_that_does_not_answer_is_no_gpu(on_node: OnNode, answer: str) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        node.write("usr/bin/nvidia-smi", SMI.format(answer))
        assert [reading.way for reading in await meter.read()] == ["rapl", "hwmon"]

    on_node(act)


def test_after_a_boot_counters_begin_anew(on_node: OnNode) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        await meter.read()
        node.write("proc/sys/kernel/random/boot_id", BOOT.format(2) + "\n")
        assert (await meter.read())[0].why == "first reading: power comes with the next one"

    on_node(act)


def test_unreadable_sensor_has_no_value(on_node: OnNode) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        # A folder can be opened by nobody, root included.
        for file in (ENERGY, "sys/class/hwmon/hwmon1/power1_average"):
            (node.root / file).unlink()
            (node.root / file).mkdir()
        reasons = [(reading.power_w, reading.why) for reading in await meter.read()]
        assert reasons == [
            (None, "energy_uj cannot be read: the kernel shows it to root only"),
            (None, "power1_average cannot be read"),
        ]

    on_node(act)


def test_a_node_that_measures_nothing_or_is_gone_is_reported(on_node: OnNode) -> None:
    async def act(node: FakeNode, meter: SshMeter) -> None:
        (node.root / "sys/class/powercap/intel-rapl:0/name").unlink()
        (node.root / "sys/class/hwmon/hwmon1/power1_average").unlink()
        with pytest.raises(NotSupported, match="n001: has neither RAPL counters nor power sensors nor GPUs"):
            await meter.read()
        await node.vanish()
        with pytest.raises(NoAnswer):
            await meter.read()

    on_node(act)


@pytest.mark.parametrize(
    "text", ["", "hello\n", "clock\ta\tb\n", "clock\ta\t1\nrapl\tx\n", "clock\ta\t1\nclock\ta\t1\n"]
)
def test_malformed_answer_is_rejected(text: str) -> None:
    with pytest.raises(BadAnswer, match="n001: an unexpected answer"):
        parse_meters(text, "n001")
