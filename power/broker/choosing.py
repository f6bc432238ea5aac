"""The broker's socket: one line of JSON in, where that job would go out. It submits nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from offpeak.errors import BadInput, OffpeakError
from offpeak.settings.broker import BrokerSettings
from plugin.federation.jobs import parse_goal
from power.agent.socket_file import bound_socket, remove_socket
from power.broker.ask_broker import MOST_BYTES, NAME
from power.broker.chosen import choice_of
from power.broker.federation import Federation
from power.broker.few_threads import FewThreads, PatientHandler
from power.broker.parcel import Wishes, parcel_of

PATIENCE_S = 10.0


@checked(frozen=True, config={"extra": "forbid"})
class Wanted:
    """What is asked for a job. The broker answers for its own file of `sites` and age of answers only."""

    sites: str
    stale_s: int
    script: str
    arguments: tuple[str, ...]
    goal: str
    latest_end_s: int | None
    cores: Annotated[int, Field(ge=1)] | None
    limit_s: Annotated[int, Field(ge=1)] | None
    application: str | None


class ChoosingServer(FewThreads, UnixStreamServer):
    """Listens in the state folder until it is closed; errors as `bound_socket`. `federation` gives the latest."""

    def __init__(self, folder: Path, settings: BrokerSettings, federation: Callable[[], Federation]) -> None:
        self.settings, self.federation, self._path = settings, federation, folder / NAME
        listener = bound_socket(self._path)
        super().__init__(str(self._path), _Answering, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._number = self._path.stat().st_ino

    def server_close(self) -> None:
        """Take the socket away."""
        super().server_close()
        remove_socket(self._path, self._number)


class _Answering(PatientHandler):
    """One question. The answer is empty where who asks had better look at the sites itself."""

    server: ChoosingServer
    timeout = PATIENCE_S

    def handle(self) -> None:
        line = self.rfile.readline(MOST_BYTES + 1)
        self.request_has_arrived()
        try:
            said = self._said(TypeAdapter(Wanted).validate_json(line))
        except BadInput as problem:
            said = {"error": str(problem), "hint": problem.hint}
        except (OffpeakError, ValidationError):
            said = {}
        self.wfile.write(json.dumps(said).encode() + b"\n")

    def _said(self, wanted: Wanted) -> dict[str, Any]:
        settings = self.server.settings
        if (wanted.sites, wanted.stale_s) != (str(settings.sites.resolve()), settings.stale_s):
            return {}
        federation = self.server.federation()
        if not set(federation.grid.names) <= set(federation.heard):
            return {}
        goal = parse_goal(wanted.goal)
        wishes = Wishes(goal, wanted.latest_end_s, wanted.cores, wanted.limit_s, wanted.application)
        parcel = parcel_of(wanted.script, "", wanted.arguments, wishes=wishes, grid=federation.grid)
        return {"choice": choice_of(federation, parcel)}
