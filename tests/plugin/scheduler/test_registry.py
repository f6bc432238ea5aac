"""Every scheduler that may be named in the settings is there, and no other; where none is named, the machine tells."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from offpeak.errors import BadInput, SchedulerError
from offpeak.plugin.scheduler.registry import SCHEDULERS, DemoScheduler, scheduler_name, scheduler_of
from offpeak.settings.agent import AgentSettings, PbsSettings
from offpeak.settings.table import BY_NAME, Settings

pytestmark = pytest.mark.quick

NOBODY = 65534
NAMES = [name for name, _ in SCHEDULERS]


def named(scheduler: str | None) -> Settings:
    return replace(Settings(), agent=AgentSettings(scheduler=scheduler))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives a machine some programs and files below tmp_path; it has no others."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PBS_CONF_FILE", raising=False)
    (tmp_path / "bin").mkdir()

    def add(*paths: str) -> None:
        for path in paths:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).touch(mode=0o755)

    return add


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_chosen(name: str) -> None:
    kind = BY_NAME["agent.scheduler"].kind
    assert kind.read(name) == name
    shown = {"simulated": "demo"}.get(name, name)
    assert type(scheduler_of(named(name))).__name__.lower() == f"{shown}scheduler"


def test_no_other_can_be_named() -> None:
    with pytest.raises(BadInput, match="is not a choice"):
        BY_NAME["agent.scheduler"].kind.read("lsf")


@pytest.mark.parametrize("name", NAMES)
def test_set_scheduler_overrides_detection(name: str, machine: Callable[..., None], tmp_path: Path) -> None:
    machine("bin/sacct", "bin/scontrol", "etc/pbs.conf", "var/spool/torque/server_name")
    assert scheduler_name(named(name), tmp_path) == name


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ((), None),
        (("bin/scontrol",), "slurm"),
        (("bin/sacct", "etc/pbs.conf"), "slurm"),
        (("etc/pbs.conf", "bin/pbsnodes"), "openpbs"),
        (("var/spool/pbs/server_name",), "openpbs"),
        (("var/spool/torque/server_name",), "torque"),
        (("bin/pbsnodes",), "torque"),
    ],
)
def test_unset_scheduler_is_detected_on_the_machine(
    paths: tuple[str, ...], found: str | None, machine: Callable[..., None], tmp_path: Path
) -> None:
    machine(*paths)
    assert scheduler_name(named(None), tmp_path) == found


def test_torque_is_found_in_its_own_folder(machine: Callable[..., None], tmp_path: Path) -> None:
    machine("srv/torque/server_name")
    settings = replace(Settings(), pbs=PbsSettings(home=Path("/srv/torque")))
    assert scheduler_name(settings, tmp_path) == "torque"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("found", ["torque", "openpbs"])
def test_scheduler_in_an_unreadable_folder_may_be_installed(
    found: str, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine()
    # Other users may not look into tmp_path at all.
    with TemporaryDirectory() as name:
        root, closed = Path(name), Path(name, "closed")
        root.chmod(0o755)
        closed.mkdir(mode=0)
        if found == "openpbs":
            monkeypatch.setenv("PBS_CONF_FILE", str(closed / "pbs.conf"))
        settings = replace(Settings(), pbs=PbsSettings(home=Path("/closed/torque")))
        os.seteuid(NOBODY)
        try:
            assert scheduler_name(settings, root) == found
        finally:
            os.seteuid(0)


def test_pbs_conf_may_be_elsewhere(
    machine: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("opt/pbs.conf")
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "opt/pbs.conf"))
    assert scheduler_name(named(None), tmp_path) == "openpbs"


def test_the_demo_refuses_other_programs() -> None:
    for ask in (DemoScheduler().view, lambda: DemoScheduler().rank(values={"1": 2})):
        with pytest.raises(SchedulerError, match="inside `offpeak demo`"):
            ask()
