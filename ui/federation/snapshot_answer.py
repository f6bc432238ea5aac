"""Print `offpeak snapshot`. Imports little, because brokers run it over ssh every few seconds."""

import asyncio
from pathlib import Path

import typer

from services.agent.client import AgentSilent
from services.broker.agent_snapshot import read_agent_snapshot


def print_snapshot(socket: Path) -> None:
    """Print the agent's report to brokers; raise AgentSilent if no agent answers."""
    try:
        typer.echo(asyncio.run(read_agent_snapshot(socket)).decode())
    except OSError as problem:
        hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
        raise AgentSilent(f"no agent answers at {socket}: {problem.strerror}", hint=hint) from None
