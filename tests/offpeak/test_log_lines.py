"""What events, devices and users write cannot forge a line of the log or move a terminal's cursor."""

import logging

import pytest

from offpeak.log_lines import begin_log


def test_a_log_shows_no_control_characters(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger()
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "level", log.level)
    begin_log("%(levelname)s %(message)s")
    try:
        raise ValueError("\x1b[2Jbroken")
    except ValueError:
        log.exception("event %s", "peak\x1b[2J\nINFO all is well")
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "ERROR event peak?[2J INFO all is well"
    assert lines[-1] == "ValueError: ?[2Jbroken"
