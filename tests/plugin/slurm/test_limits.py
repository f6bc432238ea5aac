"""The licences and QOS of slurmctld that limit what runs at a time."""

import pytest

from offpeak.model.limits import Allowance, PreemptionRules, PreemptMode, Qos
from offpeak.plugin.slurm import accounting, configuration
from offpeak.plugin.slurm.commands import CannotAskSlurm, parse_config
from offpeak.plugin.slurm.configuration import parse_licences, parse_preemption, read_limits

pytestmark = pytest.mark.quick

# The last two are of versions from 23.02 on.
SHOWN = b"""\
LicenseName=matlab Total=10 Used=3 Free=7 Reserved=0 Remote=no
LicenseName=ansys@db Total=40 Used=0 Free=40 Reserved=0 Remote=yes LastConsumed=0 LastDeficit=0 LastUpdate=1795219200
LicenseName=comsol@db Total=20 Used=5 Free=9 Reserved=0 Remote=yes LastConsumed=36 LastDeficit=6 LastUpdate=1795219200
"""
ENFORCED = b"AccountingStorageEnforce = associations,limits,qos\n"


def test_licences_are_counted_without_those_that_others_use() -> None:
    assert parse_licences(SHOWN) == {"matlab": 10, "ansys@db": 40, "comsol@db": 14}
    assert parse_licences(SHOWN.replace(b" Total", b"\n    Total")) == parse_licences(SHOWN)


@pytest.mark.parametrize(
    "shown",
    [
        b"",
        b"No licenses configured in Slurm.\n",
        b"LicenseName= Total=1\n",
        b"LicenseName=a Total=\n",
        b"LicenseName=a Total=1 LastDeficit=?\n",
        b"LicenseName=a Total=4 Nodes=n[1-2]\nLicenseName=a Total=8 Nodes=n[1-4]\n",
        b"\xff\xfe",
    ],
)
def test_what_slurm_does_not_tell_is_not_known(shown: bytes) -> None:
    assert parse_licences(shown) == {}


def test_more_in_use_elsewhere_than_there_are_leaves_none() -> None:
    assert parse_licences(b"LicenseName=a@db Total=2 Used=0 LastDeficit=5\n") == {"a@db": 0}


@pytest.mark.parametrize(
    ("config", "known"), [(ENFORCED, True), (b"AccountingStorageEnforce = none\n", False), (b"", False)]
)
def test_a_qos_limits_jobs_only_where_slurmctld_enforces_it(
    monkeypatch: pytest.MonkeyPatch, config: bytes, known: bool
) -> None:
    monkeypatch.setattr(configuration, "ask", lambda *_, **__: SHOWN)
    monkeypatch.setattr(accounting, "ask", lambda *_, **__: b"high|0|||||2||\n")
    found = read_limits(config, timeout_s=1.0)
    assert found.licences["matlab"] == 10
    assert found.qos == ({"high": Qos("high", group=Allowance(jobs=2))} if known else {})


@pytest.mark.parametrize("enforced", [b"none", b"limits"])
def test_qos_preempt_where_slurm_says_so(enforced: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "ask", lambda *_, **__: SHOWN)
    monkeypatch.setattr(accounting, "ask", lambda *_, **__: b"high|0|low|cluster|||2||\nlow|0||cluster|01:00||||\n")
    config = b"AccountingStorageEnforce = %b\nPreemptMode = CANCEL\nPreemptType = %b\nPreemptExemptTime = 00:05:00\n"
    found = read_limits(config % (enforced, b"preempt/qos"), timeout_s=1.0)
    limit = Allowance(jobs=2) if enforced == b"limits" else Allowance()
    assert found.qos == {
        "high": Qos("high", group=limit, preempts=frozenset({"low"}), preempt_mode=PreemptMode.CANCEL),
        "low": Qos("low", preempt_mode=PreemptMode.CANCEL, exempt_s=60),
    }
    assert found.preemption == PreemptionRules(exempt_s=300)
    other = read_limits(config % (b"limits", b"preempt/partition_prio"), timeout_s=1.0)
    assert other.qos["high"] == Qos("high", group=Allowance(jobs=2))


@pytest.mark.parametrize("setting", ["SchedulerParameters = defer,preempt_", "PreemptParameters = "])
def test_the_youngest_jobs_may_be_stopped_first(setting: str) -> None:
    config = parse_config(f"{setting}youngest_first\nPreemptExemptTime = 00:00:00\n".encode())
    assert parse_preemption(config) == PreemptionRules(youngest_first=True)


def test_without_an_answer_no_limit_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str, **__: float) -> bytes:
        raise CannotAskSlurm("scontrol: Access/permission denied", hint="")

    monkeypatch.setattr(configuration, "ask", refuse)
    monkeypatch.setattr(accounting, "ask", refuse)
    found = read_limits(ENFORCED, timeout_s=1.0)
    assert (found.licences, found.qos) == ({}, {})
