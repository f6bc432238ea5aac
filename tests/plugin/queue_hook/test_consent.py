"""What a comment allows."""

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, MIDNIGHT_S, ZONE, a_job

from offpeak.errors import BadInput
from offpeak.model.flexibility import RIGID, Checkpoint, Flexibility, FlexibilityRules, Tier, parse_user_hints
from offpeak.settings.plan import read_declarations

pytestmark = pytest.mark.quick

AT_8 = MIDNIGHT_S + 32 * HOUR_S


@pytest.mark.parametrize(
    ("comment", "allowed"),
    [
        ("", RIGID),
        ("my job; delay=12h", RIGID),
        ("notoffpeak:now", RIGID),
        ("mine offpeak:key=1c0f.x-2", RIGID),
        ("offpeak: not before 2026-11-22 02:00", RIGID),
        ("offpeak:delay=12h", Flexibility(delay_s=12 * HOUR_S)),
        ("for ann, offpeak:delay=90min please", Flexibility(delay_s=5400)),
        ("offpeak:delay=12h,offpeak:delay=2h", Flexibility(delay_s=2 * HOUR_S)),
        ("offpeak:delay=12h,deadline=2026-11-22T08:00", Flexibility(delay_s=12 * HOUR_S, deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T08:00;offpeak:now", Flexibility(deadline_s=AT_8, now=True)),
        ("offpeak:deadline=2026-11-22T07:00Z", Flexibility(deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T09:00:00+02:00", Flexibility(deadline_s=AT_8)),
        ("offpeak:delay=1h,project=7", Flexibility(delay_s=HOUR_S)),
        ("x|offpeak:delay=1h", RIGID),
        ("offpeak:checkpoint=10m", Flexibility(checkpoint=Checkpoint("USR1", 600))),
        ("offpeak:delay=2d,checkpoint=TERM@90s,cap", Flexibility(2 * 24 * HOUR_S, None, Checkpoint("TERM", 90), True)),
        (
            "offpeak:cap;offpeak:checkpoint=1h,checkpoint=5min",
            Flexibility(checkpoint=Checkpoint("USR1", 300), cap=True),
        ),
    ],
)
def test_user_hints_are_parsed(comment, allowed):
    assert parse_user_hints(comment, ZONE) == allowed


@pytest.mark.parametrize(
    ("comment", "error"),
    [
        ("offpeak:delay=12parsecs", "offpeak:delay=12parsecs: unknown unit 'parsecs'; known: d, h, min, s"),
        ("offpeak:delay=12", "offpeak:delay=12: '12' has no unit; write it like 30min or 2h"),
        ("offpeak:delay=-1h", "offpeak:delay=-1h: '-1h' is negative; give zero or more"),
        (
            "offpeak:later",
            "offpeak:later: unknown hint; delay=12h, deadline=2026-11-22T08:00, checkpoint=10min, cap or now",
        ),
        (
            "offpeak:checkpoint=KILL@5s",
            "offpeak:checkpoint=KILL@5s: 'KILL' is not a known signal; one of USR1, USR2, TERM, INT, HUP",
        ),
        (
            "offpeak:checkpoint=2d",
            "offpeak:checkpoint=2d: '2d' is not a time for a checkpoint; from 1s to less than a day",
        ),
        (
            "offpeak:deadline=tomorrow",
            "offpeak:deadline=tomorrow: 'tomorrow' is not a time;"
            " write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00",
        ),
    ],
)
def test_an_unreadable_hint_is_an_error_and_allows_nothing(comment, error):
    user_hint = parse_user_hints(f"{comment},offpeak:delay=3h", ZONE)
    assert user_hint.errors == (error,)
    assert user_hint.is_rigid
    assert not any((user_hint.allows_delay, user_hint.may_be_requeued, user_hint.may_be_capped))


@given(st.text(alphabet="ofpeakdlyn:=,; 0123456789hT-+Z\x00\xff", max_size=60))
def test_parser_of_hints_never_raises(text):
    parse_user_hints(f"offpeak:{text}", UTC)
    parse_user_hints(f"offpeak:deadline={text}", UTC)


@pytest.mark.parametrize(
    ("comment", "tier"),
    [
        ("", Tier.T0),
        ("offpeak:cap,checkpoint=5min,delay=3d,now", Tier.T0),
        ("offpeak:delay=23h", Tier.T1),
        ("offpeak:delay=24h", Tier.T2),
        ("offpeak:delay=3d,deadline=2026-11-22T08:00", Tier.T2),
        ("offpeak:delay=3d,deadline=2026-11-21T08:00", Tier.T1),
        ("offpeak:checkpoint=5min", Tier.T3),
        ("offpeak:cap", Tier.T4),
    ],
)
def test_tier_is_the_highest_that_the_hints_allow(comment, tier):
    assert parse_user_hints(comment, ZONE).tier(MIDNIGHT_S) is tier


def test_hints_of_the_comment_precede_those_of_the_qos_and_these_those_of_partitions():
    rules = FlexibilityRules(ZONE, {"flex": "delay=2d;cap"}, {"night": "delay=12h", "capped": "cap"})
    assert rules.of(a_job(1, comment="offpeak:now", qos="flex")).now
    assert rules.of(a_job(1, comment="offpeak:later", qos="flex")).is_rigid
    key_only = rules.of(a_job(1, comment="offpeak:key=7", qos="flex", partitions=("night",)))
    assert key_only == Flexibility(delay_s=48 * HOUR_S, cap=True)
    assert rules.of(a_job(1, qos="", partitions=("capped",))).may_be_capped
    assert rules.of(a_job(1, qos="", partitions=("night", "capped"))) == RIGID
    assert rules.of(a_job(1, qos="", partitions=("night", "batch"))) == RIGID
    assert rules.of(a_job(1, qos="", partitions=("night", "night"))).allows_delay


def test_declarations_of_the_settings_are_checked():
    assert read_declarations("flex=delay=2d;cap,p=delay=5h") == {"flex": "delay=2d;cap", "p": "delay=5h"}
    for wrong in ("flex", "=cap", "flex=", "flex=later", "flex=delay=2", "a=cap,a=now", "a=checkpoint=5min"):
        with pytest.raises(BadInput):
            read_declarations(wrong)
