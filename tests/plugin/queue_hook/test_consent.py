"""What a comment allows."""

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, MIDNIGHT_S, ZONE

from plugin.queue_hook.user_hints import NO_HINTS, UserHints, parse_user_hints

AT_8 = MIDNIGHT_S + 32 * HOUR_S


@pytest.mark.parametrize(
    ("comment", "allowed"),
    [
        ("", NO_HINTS),
        ("my job; delay=12h", NO_HINTS),
        ("notoffpeak:now", NO_HINTS),
        ("mine offpeak:key=1c0f.x-2", NO_HINTS),
        ("offpeak: not before 2026-11-22 02:00", NO_HINTS),
        ("offpeak:delay=12h", UserHints(delay_s=12 * HOUR_S)),
        ("for ann, offpeak:delay=90min please", UserHints(delay_s=5400)),
        ("offpeak:delay=12h,offpeak:delay=2h", UserHints(delay_s=2 * HOUR_S)),
        ("offpeak:delay=12h,deadline=2026-11-22T08:00", UserHints(delay_s=12 * HOUR_S, deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T08:00;offpeak:now", UserHints(deadline_s=AT_8, now=True)),
        ("offpeak:deadline=2026-11-22T07:00Z", UserHints(deadline_s=AT_8)),
        ("offpeak:deadline=2026-11-22T09:00:00+02:00", UserHints(deadline_s=AT_8)),
        ("offpeak:delay=1h,project=7", UserHints(delay_s=HOUR_S)),
        ("x|offpeak:delay=1h", NO_HINTS),
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
        ("offpeak:later", "offpeak:later: unknown hint; delay=12h, deadline=2026-11-22T08:00 or now"),
        (
            "offpeak:deadline=tomorrow",
            "offpeak:deadline=tomorrow: 'tomorrow' is no time;"
            " write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00",
        ),
    ],
)
def test_an_unreadable_hint_is_an_error_and_allows_nothing(comment, error):
    user_hint = parse_user_hints(f"{comment},offpeak:delay=3h", ZONE)
    assert user_hint.errors == (error,)
    assert not user_hint.allows_delay


@given(st.text(alphabet="ofpeakdlyn:=,; 0123456789hT-+Z\x00\xff", max_size=60))
def test_parser_of_hints_never_raises(text):
    parse_user_hints(f"offpeak:{text}", UTC)
    parse_user_hints(f"offpeak:deadline={text}", UTC)
