"""Clusters whose nodes have power, for the tests that ask for them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from needed_programs import need
from powered_pbs import powered_pbs
from powered_stage import PoweredStage
from slurm_admin import SlurmAdmin
from slurm_fixtures import PACKAGES
from zygote import Zygote

from benchmarks.local_slurm.cluster import NEEDED, PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

StartPowered = Callable[[PoweredPlan], PoweredCluster]
StartStage = Callable[[PoweredPlan], PoweredStage]
KINDS = ("slurm", TORQUE, OPENPBS)


@pytest.fixture(scope="module")
def start_powered(bmc_commands: Path, zygote: Zygote) -> Iterator[StartPowered]:
    """Starts a cluster of that plan, which lives until the tests of the file are done."""
    need(NEEDED, packages=PACKAGES)
    with ExitStack() as clusters:

        def start(plan: PoweredPlan) -> PoweredCluster:
            made = clusters.enter_context(powered_cluster(plan, bmc_commands))
            made.admin = SlurmAdmin(made.slurm)
            made.offpeak = (str(zygote.command),)
            return made

        yield start


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """One scheduler after the other."""
    return str(request.param)


@pytest.fixture(scope="module")
def start_stage(kind: str, bmc_commands: Path, zygote: Zygote) -> Iterator[StartStage]:
    """Starts a cluster of that plan under that scheduler."""
    if kind == "slurm":
        need(NEEDED, packages=PACKAGES)
    with ExitStack() as stages:

        def start(plan: PoweredPlan) -> PoweredStage:
            running = powered_cluster(plan, bmc_commands) if kind == "slurm" else powered_pbs(kind, plan, bmc_commands)
            made = stages.enter_context(running)
            if kind == "slurm":
                made.admin = SlurmAdmin(made.slurm)
            made.offpeak = (str(zygote.command),)
            return made

        yield start


@pytest.fixture
def nobody_suffers(cluster: PoweredStage) -> Iterator[None]:
    """Sees to it that the test's `cluster` has lost no job, and that no power was taken from one."""
    yield
    assert cluster.jobs.lost() == []
    assert cluster.log.violations == ()
