"""The QOS of sacctmgr, with the limits that replays count."""

import pytest

from offpeak.model.limits import Allowance, PreemptMode, Qos
from offpeak.plugin.slurm import accounting
from offpeak.plugin.slurm.accounting import parse_qos, read_qos
from offpeak.plugin.slurm.commands import CannotAskSlurm

pytestmark = pytest.mark.quick

SHOWN = """\
normal|0||cluster|||||
high|100|normal,low|suspend,gang||cpu=128,gres/gpu:a100=2,gres/gpu=4,node=8|10|cpu=64,mem=1T|2
low|5||cancel|00:10:00||0||
odd|5||later|||||
cut|1
"""


def test_limits_are_read_from_sacctmgr() -> None:
    assert parse_qos(SHOWN, PreemptMode.CANCEL) == {
        "normal": Qos("normal", preempt_mode=PreemptMode.CANCEL),
        "high": Qos(
            "high",
            group=Allowance(jobs=10, nodes=8, cores=128, gpus=4),
            per_user=Allowance(jobs=2, cores=64),
            priority=100,
            preempts=frozenset({"normal", "low"}),
            preempt_mode=PreemptMode.SUSPEND,
        ),
        "low": Qos("low", group=Allowance(jobs=0), priority=5, preempt_mode=PreemptMode.CANCEL, exempt_s=600),
        "odd": Qos("odd", priority=5, preempt_mode=PreemptMode.OFF),
    }


@pytest.mark.parametrize("text", ["", "\n", "||||||||", "sacctmgr: error"])
def test_an_answer_without_qos_names_none(text: str) -> None:
    assert parse_qos(text) == {}


@pytest.mark.parametrize("answer", [b"", CannotAskSlurm("sacctmgr: refused", hint="")])
def test_an_answer_without_qos_is_no_table(monkeypatch: pytest.MonkeyPatch, answer: bytes | CannotAskSlurm) -> None:
    def ask(*_: str, **__: float) -> bytes:
        if isinstance(answer, CannotAskSlurm):
            raise answer
        return answer

    monkeypatch.setattr(accounting, "ask", ask)
    with pytest.raises(CannotAskSlurm):
        read_qos()
