"""Rules that read something now: the scheduler's word, and who answers at the BMC's address."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from offpeak.door.door import LastRule, Rule
from offpeak.door.effect import Effect, Refusal
from offpeak.errors import WrongDevice
from offpeak.machines.inventory import Enrolment, Hardware, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.port import NodeUses
from offpeak.plugin.slurm.commands import SlurmIsSilent
from offpeak.power.interlocks.preconditions import require_identity, require_no_job, require_proven_standby

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
ON = replace(OFF, order=NodeOrder.ON)
DOWN = ("standby", "soft_off", "hard_off")


def answer_of(rule: Rule | LastRule, effect: Effect) -> Refusal | None:
    answer = asyncio.run(_requested(rule, effect))
    return answer if isinstance(answer, Refusal) else None


async def _requested(rule: Rule | LastRule, effect: Effect) -> Refusal | float | None:
    return await rule(effect)


@pytest.mark.parametrize("order", DOWN)
def test_a_node_with_a_job_keeps_its_power(order: str) -> None:
    refusal = answer_of(
        require_no_job(lambda nodes: {node: f"runs 7 on {node}" for node in nodes}, time.monotonic),
        replace(OFF, order=NodeOrder(order)),
    )
    assert refusal is not None
    assert (refusal.rule, refusal.message) == ("no_job_now", "n1: runs 7 on n1")
    assert "scontrol update nodename=n1 state=drain" in refusal.hint
    assert (
        answer_of(
            require_no_job(lambda nodes: dict.fromkeys(nodes, ""), time.monotonic), replace(OFF, order=NodeOrder(order))
        )
        is None
    )


def test_the_age_of_an_answer_counts_from_when_its_question_was_begun() -> None:
    now_s = [100.0]

    def slow(nodes: Sequence[str]) -> NodeUses:
        now_s[0] += 5.0
        return dict.fromkeys(nodes, "")

    assert asyncio.run(_requested(require_no_job(slow, lambda: now_s[0]), OFF)) == 100.0


def test_a_wake_needs_no_term_of_the_scheduler() -> None:
    def silent(_nodes: Sequence[str]) -> NodeUses:
        raise SlurmIsSilent("squeue: no answer")

    assert answer_of(require_no_job(silent, time.monotonic), ON) is None
    with pytest.raises(SlurmIsSilent):
        answer_of(require_no_job(silent, time.monotonic), OFF)


class Bmc:
    """Says who it is, and counts how often it was asked."""

    name = "bmc1"

    def __init__(self, who: str | None) -> None:
        self.who, self.times = who, 0

    async def identity(self) -> str | None:
        self.times += 1
        return self.who


def rule_of(bmc: Bmc, enrolled: str | None) -> Rule:
    known = None if enrolled is None else Enrolment(enrolled, (), "2026-11-21")
    machine = InventoryNode("n1", Hardware("compute"), enrolled=known)
    return require_identity(lambda _node: machine, lambda _node: bmc)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("effect", [ON, *(replace(OFF, order=NodeOrder(order)) for order in DOWN)])
def test_the_bmc_is_the_one_that_was_enrolled(effect: Effect) -> None:
    assert answer_of(rule_of(Bmc("a"), "a"), effect) is None
    for who in ("b", None):
        with pytest.raises(WrongDevice):
            answer_of(rule_of(Bmc(who), "a"), effect)
    refusal = answer_of(rule_of(Bmc("a"), None), effect)
    assert refusal == Refusal("identity", "n1: its BMC is not enrolled", "offpeak enroll n1")


def test_a_packet_wakes_where_the_bmc_is_dead() -> None:
    bmc = Bmc(None)
    assert answer_of(rule_of(bmc, "a"), replace(ON, inputs=(("way", "wol"),))) is None
    assert bmc.times == 0
    assert answer_of(rule_of(bmc, None), replace(ON, inputs=(("way", "wol"),))) is not None
    with pytest.raises(WrongDevice):
        answer_of(rule_of(bmc, "a"), replace(OFF, inputs=(("way", "wol"),)))


def test_standby_needs_the_proof_of_its_own_state() -> None:
    def refused(capabilities: tuple[str, ...] | None, mem_sleep: str = "deep", order: str = "standby") -> bool:
        method = SleepMethod(NodeOrder.STANDBY, ("wol",), 60, 60, mem_sleep=mem_sleep)
        known = None if capabilities is None else Enrolment("a", capabilities, "2026-11-21")
        machine = InventoryNode("n1", Hardware("compute", sleep_methods=(method,)), enrolled=known)
        refusal = require_proven_standby({"n1": machine}.get)(replace(OFF, order=NodeOrder(order)))
        assert refusal is None or refusal.message == "n1: its standby is not proven"
        return refusal is not None

    assert refused(None)
    assert refused(("on", "soft_off"))
    assert refused(("standby",), "shallow")
    assert refused(("standby:shallow", "standby:s2idle"))
    assert not refused(("standby",))
    assert not refused(("on", "standby:shallow"), "shallow")
    assert not any(refused((), order=order) for order in ("on", "soft_off", "hard_off"))
