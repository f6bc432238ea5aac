"""A site that is slow, answers nothing or answers nonsense is left out with the reason; the others are chosen from."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.plugin.federation.sites import Grid, Reach
from offpeak.services.broker.federation import Federation, make_choice
from offpeak.services.broker.site_poller import poll_sites

sys.path.append(str(Path(__file__).parent))
from three_sites import GRID, broker_job, site_replies

pytestmark = pytest.mark.quick


@asynccontextmanager
async def agent(path: Path, answer: bytes | None) -> AsyncIterator[None]:
    """Serve an agent that sends the answer to each request, nothing for None until the block ends."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if answer is None:
            await ended.wait()
        writer.write(answer or b"")
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield
        ended.set()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "its agent did not answer within 0.5 s"),
        (b"", "its agent does not answer: it sent no reply"),
        (b'{"error": "not looked at the queue yet"}\n', "its agent does not answer: not looked at the queue yet"),
        (b'{"snapshot": {}}\n', "its agent's answer makes no sense: is it of another version?"),
        (b"[" * 100_000 + b"\n", "its agent's answer makes no sense"),
        (json.dumps({"snapshot": None}).encode() + b"\n", "its agent's answer makes no sense"),
    ],
)
def test_a_site_that_does_not_answer_is_left_out(tmp_path: Path, answer: bytes | None, problem: str) -> None:
    slow = replace(GRID.sites[0], reach=Reach("local", submit="qsub", agent=str(tmp_path / "a.sock")))

    async def poll() -> dict[str, object]:
        async with agent(tmp_path / "a.sock", answer):
            return dict(await poll_sites([slow], socket=tmp_path / "none", timeout_s=0.5 if answer is None else 120.0))

    replies = asyncio.run(poll())
    grid = Grid((slow, *GRID.sites[1:]))
    choice = make_choice(Federation(grid, {**site_replies(), **replies}, 60.0), broker_job())  # type: ignore[dict-item]
    assert choice["site"] == "east"
    assert problem in choice["misses"]["north"]
