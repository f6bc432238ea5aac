"""The notation of settings, and the invalid values of each kind."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed_policy import install_policy

from offpeak.errors import BadInput
from offpeak.settings.agent import WINDOW_POLICIES
from offpeak.settings.kinds import (
    BOOL,
    DURATION,
    NAMES,
    PATH,
    PERIOD,
    POWER,
    TEXT,
    SettingKind,
    choice,
    choice_or_registered,
    whole_number,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("kind", "written", "parsed"),
    [
        (TEXT, " day-mean ", "day-mean"),
        (PATH, "prices.csv", Path("prices.csv")),
        (PATH, Path("/data/prices.csv"), Path("/data/prices.csv")),
        (BOOL, True, True),
        (NAMES, ["easy", "greedy"], ("easy", "greedy")),
        (NAMES, "easy, greedy", ("easy", "greedy")),
        (POWER, "1.2kW", 1200.0),
        (DURATION, "24h", 86400),
        (PERIOD, "30s", 30),
        (PERIOD, "event", None),
        (choice("user", "exact"), "exact", "exact"),
        (whole_number(1), 1, 1),
    ],
)
def test_reads_what_is_written(kind: SettingKind, written: object, parsed: object) -> None:
    assert kind.read(written) == parsed


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        (TEXT, 5, "5 is not text"),
        (TEXT, "  ", "the text is empty"),
        (PATH, False, "False is not text"),
        (BOOL, "yes", "'yes' is not true or false"),
        (BOOL, 1, "1 is not true or false"),
        (NAMES, [], "[] is not a list of names"),
        (NAMES, ["easy", 3], "['easy', 3] is not a list of names"),
        (NAMES, "easy,", "'easy,' is not a list of names"),
        (POWER, 75, "75 is not text"),
        (POWER, "75", "'75' has no unit"),
        (DURATION, "2 fortnights", "unknown unit 'fortnights'"),
        (PERIOD, "0s", "'0s' is zero"),
        (choice("user", "exact"), "exakt", "'exakt' is not a choice"),
        (choice("user", "exact"), ["user"], "['user'] is not a choice"),
        (whole_number(1), True, "True is not a whole number"),
        (whole_number(1), 2.5, "2.5 is not a whole number"),
        (whole_number(1), "20", "'20' is not a whole number"),
    ],
)
def test_says_why_not_and_what_to_write(kind: SettingKind, written: object, reason: str) -> None:
    with pytest.raises(BadInput) as caught:
        kind.read(written)
    assert str(caught.value).startswith(reason)
    assert caught.value.hint


@given(st.integers(), st.integers(-50, 50), st.integers(0, 50))
def test_whole_number_holds_its_range(written: int, low: int, width: int) -> None:
    kind = whole_number(low, low + width)
    if low <= written <= low + width:
        assert kind.read(written) == written
    else:
        with pytest.raises(BadInput, match="out of range"):
            kind.read(written)


def test_a_registered_name_is_a_choice_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    kind = choice_or_registered(WINDOW_POLICIES, "a policy", "greedy")
    with pytest.raises(BadInput, match="'widest' is not a choice"):
        kind.read("widest")
    install_policy(tmp_path, "widest_of_kinds", "widest = nowhere:order", "raise RuntimeError")
    assert [kind.read(name) for name in ("widest", "greedy")] == ["widest", "greedy"]
    for written, hint in (("wydest", "did you mean widest?"), (["widest"], "widest")):
        with pytest.raises(BadInput, match="is not a choice") as caught:
            kind.read(written)
        assert hint in caught.value.hint
