"""The agent's log: a line on change."""

import logging

import pytest

from services.agent.loop import ProblemLog


def test_the_same_trouble_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    voice = ProblemLog(lambda: now[0])
    with caplog.at_level(logging.INFO, "offpeak"):
        for _ in range(20):
            voice.trouble("slurmctld", "does not answer")
            now[0] += 1
        assert voice.troubles == ("slurmctld: does not answer",)
        voice.trouble("slurmctld", None)
        voice.trouble("slurmctld", None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "well again after 20 times" in caplog.records[-1].getMessage()
    assert voice.troubles == ()
