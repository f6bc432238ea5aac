"""`offpeak check` of an own policy: whether it can be loaded, and whether it may change the order."""

from pathlib import Path

import pytest
from installed_policy import WIDEST_FIRST, install_policy

from offpeak.power.check.findings import CheckVerdict
from offpeak.settings.agent import AgentSettings
from offpeak.ui.hardware.check import check_own_policy


@pytest.mark.parametrize(
    ("code", "is_allowed", "verdict", "text"),
    [
        (WIDEST_FIRST, True, CheckVerdict.GOOD, "it can be loaded, and orders the queue"),
        (WIDEST_FIRST, False, CheckVerdict.DOUBTFUL, "it can be loaded; its order is only recorded, as in mode shadow"),
        ("import nowhere_at_all", True, CheckVerdict.BAD, "cannot be loaded: No module named 'nowhere_at_all'"),
    ],
)
def test_an_own_policy_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, is_allowed: bool, verdict: CheckVerdict, text: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_policy(tmp_path, "widest_of_check", "widest = widest_of_check:order", code)
    settings = AgentSettings(queue="widest", allow_own_policies=is_allowed)
    (finding,) = check_own_policy(settings)
    assert (finding.part, finding.subject, finding.verdict) == ("policy", "widest", verdict)
    assert text in finding.message
    assert bool(finding.hint) == (verdict is not CheckVerdict.GOOD)


def test_a_built_in_policy_needs_no_check() -> None:
    assert list(check_own_policy(AgentSettings())) == []
