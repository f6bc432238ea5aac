"""The log of problems has a line for each change."""

import logging

import pytest

from offpeak.services.agent.loop import ProblemLog

pytestmark = pytest.mark.quick


def test_a_repeated_problem_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    problem_log = ProblemLog(lambda: now[0])
    with caplog.at_level(logging.INFO, "offpeak"):
        for _ in range(20):
            problem_log.report("slurmctld", "does not answer")
            now[0] += 1
        assert problem_log.problems == ("slurmctld: does not answer",)
        problem_log.report("slurmctld", None)
        problem_log.report("slurmctld", None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "well again after 20 times" in caplog.records[-1].getMessage()
    assert problem_log.problems == ()
