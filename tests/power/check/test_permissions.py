"""Logins that others may read, and schedulers that do not answer or obey, are found before they matter."""

from pathlib import Path

import pytest
from slurm_fixtures import SlurmAccounting

from offpeak.machines.credentials import Credential
from offpeak.plugin.contract.rules import ManagedSite
from offpeak.plugin.contract.slurm import SlurmContract
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.power.check.findings import CheckVerdict, Finding, check_credentials, check_qos, check_scheduler
from offpeak.settings.agent import SlurmSettings

pytestmark = pytest.mark.quick


def test_login_files_are_checked(tmp_path: Path) -> None:
    good, open_to_all = tmp_path / "good", tmp_path / "open"
    for file, mode in ((good, 0o600), (open_to_all, 0o644)):
        file.write_text("hunter2\n")
        file.chmod(mode)
    logins = [
        Credential("bmc", "admin", good),
        Credential("v3", "monitor", good, good),
        Credential("pdu", password_file=open_to_all),
        Credential("nodes", "root", key_file=good, known_hosts=tmp_path / "known_hosts"),
        Credential("gone", password_file=tmp_path / "gone"),
    ]
    found = list(check_credentials(logins))
    assert [finding.verdict for finding in found] == [
        CheckVerdict.GOOD,
        CheckVerdict.GOOD,
        CheckVerdict.BAD,
        CheckVerdict.BAD,
        CheckVerdict.BAD,
    ]
    assert found[0].message == "its file is readable by this user only"
    assert found[1].message == "its 2 files are readable by this user only"
    assert found[2].hint == f"chmod 600 {open_to_all}"
    assert "ssh-keyscan" in found[3].hint
    assert not any("hunter2" in f"{finding}" for finding in found)


def test_advice_hides_no_fault() -> None:
    traits = SchedulerTraits(
        "slurm",
        "25.11",
        Ranking.OFFSET,
        power_saving=True,
        boot_s=600,
        shared_nodes=False,
        contract=SlurmContract({"JobSubmitPlugins": "(null)"}),
    )

    class Advised:
        traits, view = staticmethod(lambda: traits), staticmethod(lambda: SchedulerView(0, (), (), ()))

    found = check_scheduler("Slurm", Advised(), ManagedSite(may_delay=True))  # type: ignore[arg-type]
    assert [finding.verdict for finding in found] == [CheckVerdict.BAD, CheckVerdict.DOUBTFUL]
    assert found[0].message == "it shows no nodes"


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def check() -> Finding:
        (finding,) = check_scheduler("Slurm", SlurmScheduler(SlurmSettings()), ManagedSite())
        return finding

    found = check()
    assert (found.verdict, found.message) == (CheckVerdict.DOUBTFUL, "no scontrol on PATH")
    broken = tmp_path / "scontrol"
    broken.write_text("#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = check()
    assert (found.verdict, found.message) == (
        CheckVerdict.BAD,
        "scontrol: slurm_load_ctl_conf error: Unable to contact slurm controller",
    )


def test_a_qos_that_declares_hints_exists_and_pays_for_them_or_not(
    slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = slurm_accounting.cluster.run
    for name, factor in (("flex", "0.8"), ("night", "1")):
        run("sacctmgr", "--immediate", "add", "qos", name, "set", f"usagefactor={factor}")
    monkeypatch.setattr("os.environ", slurm_accounting.cluster.environment)
    try:
        pays, free, gone = check_qos(("flex", "night", "flux"))
    finally:
        run("sacctmgr", "--immediate", "delete", "qos", "flex,night")
    assert (pays.verdict, pays.message) == (CheckVerdict.DOUBTFUL, "UsageFactor 0.8, also for jobs that never wait")
    assert (free.verdict, free.message) == (CheckVerdict.GOOD, "UsageFactor 1: no reward")
    assert gone.verdict is CheckVerdict.BAD
    assert gone.hint.startswith("sacctmgr add qos flux set usagefactor=0.8; ")


def test_a_qos_that_cannot_be_looked_up_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [finding.verdict for finding in check_qos(("flex", "night"))] == [CheckVerdict.BAD] * 2
    assert list(check_qos(())) == []
