"""BMCs for the tests that ask for them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from needed_programs import need

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc, bmcs, compiled_commands
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode

PROGRAMS = ("ipmi_sim", "ipmitool", "ipmipower", "gcc", "setpriv", "/usr/include/OpenIPMI/serv.h")
PACKAGES = "openipmi ipmitool freeipmi-tools libopenipmi-dev gcc libc6-dev"
FEW, MANY = 3, 64

MachineOf = Callable[..., InventoryNode]


@pytest.fixture(scope="session")
def bmc_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ipmi_sim must load to be a BMC for these tests."""
    need(PROGRAMS, packages=PACKAGES)
    return compiled_commands(tmp_path_factory.mktemp("ipmi_sim_commands"))


@pytest.fixture(scope="session")
def running_bmcs(bmc_commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SimulatedBmc]]:
    """A handful of BMCs that live as long as the test run."""
    with bmcs(tmp_path_factory.mktemp("bmcs"), FEW, bmc_commands) as made:
        yield made


@pytest.fixture
def few_bmcs(running_bmcs: list[SimulatedBmc]) -> list[SimulatedBmc]:
    """The same, as new: on, 250 W, nothing logged. They may be frozen, but not killed."""
    for running_bmc in running_bmcs:
        running_bmc.reset()
    return running_bmcs


@pytest.fixture(scope="module")
def many_bmcs(bmc_commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SimulatedBmc]]:
    """A rack of 64."""
    with bmcs(tmp_path_factory.mktemp("rack"), MANY, bmc_commands) as made:
        yield made


@pytest.fixture
def machine_of(tmp_path: Path) -> MachineOf:
    """Makes the machine of a BMC: the user admin with the right password unless it is told otherwise."""

    def make(
        bmc: SimulatedBmc,
        *,
        node: str = "n1",
        host: str | None = None,
        user: str = "admin",
        password: str = "secret",
        privilege: str = "operator",
        cipher_suite: int = 3,
        driver: str = "ipmi",
    ) -> InventoryNode:
        file = tmp_path / f"password-{password.encode().hex()}"
        file.touch(mode=0o600)
        file.write_text(password + "\n")
        hardware = Hardware(
            "compute",
            driver=driver,
            credential=Credential(f"bmc-{user}", user, file),
            port=bmc.port,
            cipher_suite=cipher_suite,
            privilege=privilege,
            workarounds=("opensesspriv",),
        )
        return InventoryNode(node, hardware, bmc=host or bmc.host)

    return make
