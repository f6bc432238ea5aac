"""Slurm's commands as the code under test finds them: by the environment."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings

UseSettings = Callable[[str], SlurmCluster]


@pytest.fixture
def cluster(slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The running cluster, to which this test's `sacct` and `scontrol` talk."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_accounting.cluster.conf))
    return slurm_accounting.cluster


@pytest.fixture
def use_settings(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> UseSettings:
    """Lets this test's commands read a slurm.conf of their own, with other last lines."""

    def use(settings: str) -> SlurmCluster:
        folder = Path(tempfile.mkdtemp(dir=cluster.folder))
        folder.chmod(0o755)
        other = replace(cluster, folder=folder, settings=settings)
        other.write_conf()
        monkeypatch.setenv("SLURM_CONF", str(other.conf))
        return other

    return use


@pytest.fixture
def basic(basic_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A cluster under priority/basic, to which this test's commands talk."""
    monkeypatch.setenv("SLURM_CONF", str(basic_slurm.conf))
    return basic_slurm


@pytest.fixture
def multifactor(multifactor_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A cluster under priority/multifactor, to which this test's commands talk."""
    monkeypatch.setenv("SLURM_CONF", str(multifactor_slurm.conf))
    return multifactor_slurm


@pytest.fixture
def slurm() -> SlurmScheduler:
    """Slurm behind the port, as the environment finds it."""
    return SlurmScheduler(SlurmSettings(timeout_s=300))
