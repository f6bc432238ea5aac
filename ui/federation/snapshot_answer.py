"""What `offpeak snapshot` prints. Loads little: brokers have it run over ssh every few seconds."""

import asyncio
from pathlib import Path

import typer

from power.agent.ask_agent import AgentSilent
from power.broker.over_socket import over_socket


def print_snapshot(socket: Path) -> None:
    """Print what the agent tells brokers; AgentSilent if none answers."""
    try:
        typer.echo(asyncio.run(over_socket(socket)).decode())
    except OSError as problem:
        hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
        raise AgentSilent(f"no agent answers at {socket}: {problem.strerror}", hint=hint) from None
