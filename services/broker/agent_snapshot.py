"""Reads the report for brokers from the agent's socket.

It imports little, because brokers run it over ssh every few seconds.
"""

import asyncio
import json
from pathlib import Path

from offpeak.errors import NoAnswer
from services.agent.status import FOR_BROKERS

MOST_BYTES = 256 * 1024
"""The largest report of a site."""


async def read_agent_snapshot(path: Path) -> bytes:
    """Return the report of the agent at that socket as JSON. Raises NoAnswer with the error of the agent."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MOST_BYTES)
    try:
        writer.write(json.dumps(FOR_BROKERS).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    answer = json.loads(line or b"{}")
    if "snapshot" not in answer:
        raise NoAnswer(str(answer.get("error", "it sent no reply")))
    return json.dumps(answer["snapshot"]).encode()
