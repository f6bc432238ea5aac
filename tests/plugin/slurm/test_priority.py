"""The order of Slurm's queue: the weights of its configuration, and the shares of its accounts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from queue_site import plain_cluster

from offpeak.model.limits import PriorityOrder, PriorityWeights, ShareAccount, SitePriority
from offpeak.plugin.priority_bands import BandWidths, band_widths
from offpeak.plugin.slurm import accounting
from offpeak.plugin.slurm.accounting import parse_priority, parse_shares, read_priority
from offpeak.plugin.slurm.commands import CannotAskSlurm, parse_config

pytestmark = pytest.mark.quick

WEIGHTED = """\
FairShareDampeningFactor = 3
PriorityDecayHalfLife   = 14-00:00:00
PriorityCalcPeriod      = 00:01:00
PriorityFavorSmall      = Yes
PriorityFlags           = SMALL_RELATIVE_TO_TIME,NO_FAIR_TREE,MAX_TRES
PriorityMaxAge          = 1-00:00:00
PriorityType            = priority/multifactor
PriorityUsageResetPeriod = NONE
PriorityWeightAge       = 1000
PriorityWeightAssoc     = 0
PriorityWeightFairShare = 100000
PriorityWeightJobSize   = 10
PriorityWeightPartition = 20
PriorityWeightQOS       = 30
PriorityWeightTRES      = CPU=1000,Mem=2000
"""
WEIGHTS = PriorityWeights(
    age=1000,
    fair_share=100_000,
    job_size=10,
    partition=20,
    qos=30,
    max_age_s=86_400,
    favor_small=True,
    small_relative_to_time=True,
    half_life_s=14 * 86_400,
    calc_period_s=60,
    is_fair_tree=False,
    dampening=3.0,
)
SHARES = """\
root||1
 root|root|1
 physics||30
  physics|anna|3
  physics|bob|parent
  lasers||2
   lasers|anna|1
   lasers|anna|5
 chemistry||parent
  chemistry|dora|4
cut|1
"""


def answers(**of: str | CannotAskSlurm) -> Callable[..., bytes]:
    """Return a stand-in of Slurm's commands: an answer or an error by program."""

    def ask(program: str, *_: str, **_options: float) -> bytes:
        answer = of[program]
        if isinstance(answer, CannotAskSlurm):
            raise answer
        return answer.encode()

    return ask


def test_the_weights_of_a_site() -> None:
    found = parse_priority(parse_config(WEIGHTED.encode()))
    assert found == SitePriority(
        PriorityOrder.MULTIFACTOR, WEIGHTS, not_modelled=("PriorityWeightTRES", "PriorityFlags=MAX_TRES")
    )


def test_times_that_slurm_does_not_show_are_its_defaults() -> None:
    text = WEIGHTED.replace("1-00:00:00", "(null)").replace("00:01:00", "00:00:00").replace("14-00:00:00", "00:00:00")
    weights = parse_priority(parse_config(text.encode())).weights
    default = PriorityWeights()
    assert (weights.max_age_s, weights.calc_period_s) == (default.max_age_s, default.calc_period_s)
    assert weights.half_life_s == 0


@pytest.mark.parametrize(
    "text", ["PriorityType = priority/basic\n", "PriorityType = priority/multifactor\nPriorityWeightAge = 0\n"]
)
def test_without_weights_jobs_start_by_submission(text: str) -> None:
    assert parse_priority(parse_config(text.encode())) == SitePriority(PriorityOrder.SUBMISSION)


@pytest.mark.parametrize(
    "setting", ["PriorityWeightAssoc = 100000", "PriorityWeightTRES = CPU=1000", "PrioritySiteFactorPlugin = own"]
)
def test_a_weight_that_is_not_modelled_is_an_order_of_the_site_with_bands(setting: str) -> None:
    text = f"PriorityType = priority/multifactor\nPriorityWeightAge = 0\n{setting}\n"
    found = parse_priority(parse_config(text.encode()))
    assert found == SitePriority(PriorityOrder.MULTIFACTOR, not_modelled=(setting.split()[0],))
    cluster = replace(plain_cluster(()), priority=found)
    assert band_widths(10, cluster, np.array([26_763, 2_497])) == BandWidths(0, 0)


@pytest.mark.parametrize("version", ["24.11", "25.11"])
def test_recorded_answers_have_no_weights(shared: Path, version: str) -> None:
    text = (shared / "data" / "captures" / "slurm" / version / "scontrol_show_config.txt").read_bytes()
    assert parse_priority(parse_config(text)) == SitePriority(PriorityOrder.SUBMISSION)


def test_shares_of_accounts_and_users() -> None:
    assert parse_shares(SHARES) == (
        ShareAccount("root", "", None, (("root", 1),)),
        ShareAccount("physics", "root", 30, (("anna", 3), ("bob", None))),
        ShareAccount("lasers", "physics", 2, (("anna", 1),)),
        ShareAccount("chemistry", "root", None, (("dora", 4),)),
    )


def test_the_priority_of_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "ask", answers(scontrol=WEIGHTED, sshare=SHARES))
    found = read_priority()
    assert (found.order, found.weights) == (PriorityOrder.MULTIFACTOR, WEIGHTS)
    assert [account.name for account in found.accounts] == ["root", "physics", "lasers", "chemistry"]


@pytest.mark.parametrize(
    ("shares", "reason"),
    [("", "sshare lists no users"), (CannotAskSlurm("sshare: refused", hint=""), "sshare: refused")],
)
def test_without_shares_no_fair_share_counts(
    monkeypatch: pytest.MonkeyPatch, shares: str | CannotAskSlurm, reason: str
) -> None:
    monkeypatch.setattr(accounting, "ask", answers(scontrol=WEIGHTED, sshare=shares))
    found = read_priority()
    assert found.weights == WEIGHTS._replace(fair_share=0)
    assert (found.accounts, found.not_modelled[-1]) == ((), f"fair share ({reason})")
    only_shares = "PriorityType = priority/multifactor\nPriorityWeightFairShare = 10\n"
    monkeypatch.setattr(accounting, "ask", answers(scontrol=only_shares, sshare=shares))
    assert read_priority() == SitePriority(PriorityOrder.MULTIFACTOR, not_modelled=(f"fair share ({reason})",))


@pytest.mark.parametrize(
    ("config", "reason"),
    [("", "scontrol shows no PriorityType"), (CannotAskSlurm("scontrol: refused", hint=""), "scontrol: refused")],
)
def test_without_settings_recorded_priorities_count(
    monkeypatch: pytest.MonkeyPatch, config: str | CannotAskSlurm, reason: str
) -> None:
    monkeypatch.setattr(accounting, "ask", answers(scontrol=config))
    assert read_priority() == SitePriority(PriorityOrder.RECORDED, not_modelled=(f"Slurm's weights ({reason})",))
