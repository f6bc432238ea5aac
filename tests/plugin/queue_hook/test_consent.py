"""What a comment allows."""

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, MIDNIGHT_S, ZONE

from plugin.queue_hook.consent import NONE, Consent, consent_of

AT_8 = MIDNIGHT_S + 32 * HOUR_S


@pytest.mark.parametrize(
    ("comment", "allowed"),
    [
        ("", NONE),
        ("my job; delay=12h", NONE),
        ("notoffpeak:now", NONE),
        ("mine offpeak:key=1c0f.x-2", NONE),
        ("offpeak: not before 2026-11-22 02:00", NONE),
        ("offpeak:delay=12h", Consent(delay_s=12 * HOUR_S)),
        ("for ann, offpeak:delay=90min please", Consent(delay_s=5400)),
        ("offpeak:delay=12h,offpeak:delay=2h", Consent(delay_s=2 * HOUR_S)),
        ("offpeak:delay=12h,deadline=2026-11-22T08:00", Consent(delay_s=12 * HOUR_S, deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T08:00;offpeak:now", Consent(deadline_s=AT_8, now=True)),
        ("offpeak:deadline=2026-11-22T07:00Z", Consent(deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T09:00:00+02:00", Consent(deadline_s=AT_8)),
        ("offpeak:delay=1h,project=7", Consent(delay_s=HOUR_S)),
        ("x|offpeak:delay=1h", NONE),
    ],
)
def test_what_is_read(comment, allowed):
    assert consent_of(comment, ZONE) == allowed


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("offpeak:delay=12parsecs", "offpeak:delay=12parsecs: unknown unit 'parsecs'; known: d, h, min, s"),
        ("offpeak:delay=12", "offpeak:delay=12: '12' has no unit; write it like 30min or 2h"),
        ("offpeak:delay=-1h", "offpeak:delay=-1h: '-1h' is negative; give zero or more"),
        ("offpeak:later", "offpeak:later: not a word of offpeak; delay=12h, deadline=2026-11-22T08:00 or now"),
        (
            "offpeak:deadline=tomorrow",
            "offpeak:deadline=tomorrow: 'tomorrow' is no time;"
            " write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00",
        ),
    ],
)
def test_what_cannot_be_read_is_said_and_allows_nothing(comment, said):
    consent = consent_of(f"{comment},offpeak:delay=3h", ZONE)
    assert consent.troubles == (said,)
    assert not consent.allows_delay


@given(st.text(alphabet="ofpeakdlyn:=,; 0123456789hT-+Z\x00\xff", max_size=60))
def test_whatever_stands_there_nothing_is_raised(text):
    consent_of(f"offpeak:{text}", UTC)
    consent_of(f"offpeak:deadline={text}", UTC)
