"""The subcommands of `offpeak`, each made when it is named: who asks for one does not wait for the others."""

from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from ui.parameters import PlainCommand, PlainGroup

MODULES = {
    "simulate": "ui.replay.simulate_command",
    "study": "ui.replay.study_command",
    "estimate": "ui.estimate.command",
    "generate": "ui.replay.generate_command",
    "whatif": "ui.replay.whatif_command",
    "prices": "ui.prices.command",
    "score": "ui.forecast.score_command",
    "nodes": "ui.nodes.command",
    "node": "ui.nodes.command",
    "agent": "ui.agent.command",
    "page": "ui.page.command",
    "status": "ui.agent.command",
    "queue": "ui.agent.command",
    "plan": "ui.plan.command",
    "why": "ui.agent.command",
    "history": "ui.agent.command",
    "choose": "ui.federation.command",
    "submit": "ui.federation.command",
    "broker": "ui.federation.command",
    "snapshot": "ui.federation.command",
    "check": "ui.hardware.command",
    "enroll": "ui.hardware.command",
    "virtual": "ui.hardware.command",
    "demo": "ui.demo.command",
    "show-config": "ui.show_config_command",
    "forecast": "ui.forecast.command",
    "power": "ui.hardware.command",
    "ledger": "ui.ledger.command",
    "report": "ui.month.command",
}
"""Where each stands, in the order of --help: a function, or a Typer of functions, of that name."""


class Commands(UserDict[str, Any]):
    """Subcommands by name, imported and built at the first look."""

    def __getitem__(self, name: str) -> Any:
        """Return the subcommand; KeyError if there is none."""
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = _built(name, found)
        return found


class OffpeakCommands(PlainGroup):
    """The group of all subcommands."""

    def __init__(self, **attributes: Any) -> None:
        """Take those that were registered besides."""
        super().__init__(**attributes)
        self.commands = Commands(MODULES | dict(self.commands))


def _built(name: str, module: str) -> Any:
    command = getattr(import_module(module), name.replace("-", "_"))
    if isinstance(command, typer.Typer):
        built = get_command(command)
        built.name = name
        return built
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=PlainCommand)(command)
    return get_command(app)
