"""The paper's sentences and the logs that they are about."""

from dataclasses import replace

import pytest

from studies.online_simulation.plan import OnlineSubject
from studies.online_simulation.run import PAPER_LOGS
from studies.online_simulation.tables import CLAIMS, has_tail, is_busy, is_underused


def test_sentences_say_something() -> None:
    for claim in CLAIMS:
        assert claim.low < claim.high
        assert claim.holds((claim.low + claim.high) / 2)
        assert not claim.holds(claim.high + 1)


@pytest.mark.parametrize("paper", PAPER_LOGS, ids=lambda paper: paper.name)
def test_whom_they_are_about(subject: OnlineSubject, paper: object) -> None:
    of_paper = replace(subject, paper=paper)
    assert is_underused(of_paper) == (paper == PAPER_LOGS[0])
    assert is_busy(of_paper) != is_underused(of_paper)


def test_a_log_that_is_not_the_papers(subject: OnlineSubject) -> None:
    assert is_busy(replace(subject, paper=None))
    assert has_tail(subject)
