"""A site whose clock differs is left out by name: its last answer would stay fresh, or never be."""

import asyncio
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.plugin.federation.site_report import report_json
from offpeak.services.broker.site_poller import poll_sites

sys.path.append(str(Path(__file__).parent))
from three_sites import GRID, IDLE


@pytest.mark.parametrize(
    ("sent", "at", "problem"),
    [
        (0.0, 0.0, ""),
        (30.0, -300.0, ""),
        (600.0, 590.0, "its clock is 600 s ahead of the broker's"),
        (-600.0, -620.0, "its clock is 600 s behind the broker's"),
        (math.nan, 0.0, "its agent's answer makes no sense"),
        (0.0, math.inf, "its agent's answer makes no sense"),
        # Of an older version.
        (None, -300.0, ""),
        (None, 600.0, "its clock is 600 s ahead of the broker's"),
    ],
)
def test_a_clock_that_differs_is_said(
    monkeypatch: pytest.MonkeyPatch, sent: float | None, at: float, problem: str
) -> None:
    async def answer(*_: object) -> bytes:
        now_s = time.time()
        report = replace(IDLE, at_unix_s=now_s + at, sent_unix_s=None if sent is None else now_s + sent)
        times = {name: getattr(report, name) for name in ("at_unix_s", "sent_unix_s")}
        return json.dumps({**report_json(report), **times}).encode()

    monkeypatch.setattr("offpeak.services.broker.site_poller._read_report", answer)
    replies = asyncio.run(poll_sites(GRID.sites[:1], socket=Path("/nowhere"), timeout_s=300))
    (reply,) = replies.values()
    assert reply.problem.startswith(problem)
    assert bool(reply.problem) == bool(problem) == (reply.report is None)
