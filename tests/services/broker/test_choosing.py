"""The broker's socket: the requests that it answers, and those that it leaves to the command."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpeak.errors import BadInput, OffpeakError
from offpeak.services.broker.client import MOST_CHOICE_BYTES, SOCKET_NAME, fetch_choice
from offpeak.services.broker.federation import Federation
from offpeak.services.broker.servers import ChoiceServer
from offpeak.settings.broker import BrokerSettings

sys.path.append(str(Path(__file__).parent))
from three_sites import GRID, SCRIPT, site_replies

pytestmark = pytest.mark.quick


class ChoosingBroker:
    """A server, and a request that it can answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.federation = Federation(GRID, site_replies(), 120.0)
        settings = BrokerSettings(sites=folder / "sites.toml")
        self.server = ChoiceServer(folder, settings, lambda: self.federation)
        self.question: dict[str, Any] = {
            "sites": str(folder / "sites.toml"),
            "stale_s": settings.stale_s,
            "script": SCRIPT,
            "arguments": (),
            "goal": "co2",
            "latest_end_s": None,
            "cores": None,
            "limit_s": None,
            "application": None,
        }

    def choice(self, **other: object) -> dict[str, Any] | None:
        return fetch_choice(self.folder, self.question | other)


@pytest.fixture
def choosing(tmp_path: Path) -> Iterator[ChoosingBroker]:
    choosing = ChoosingBroker(tmp_path)
    with serving(choosing):
        yield choosing


@contextmanager
def serving(choosing: ChoosingBroker) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    task = loop.create_task(choosing.server.serve())

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            with suppress(asyncio.CancelledError):
                runner.get_loop().run_until_complete(task)
            runner.run(connections_end())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        # Once this is answered, earlier connections are accepted: asyncio drops one that it accepts as its server ends.
        choosing.choice()
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        choosing.server.close()


async def connections_end() -> None:
    """Return when all clients have been answered, and their connections are closed in the next rounds of the loop."""
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)


def test_broker_chooses_by_the_last_site_reports(choosing: ChoosingBroker) -> None:
    choice = choosing.choice()
    assert choice is not None
    assert (choice["site"], choice["second"]["site"]) == ("north", "east")
    choosing.federation = replace(choosing.federation, replies=site_replies(north="it is mute"))
    choice = choosing.choice()
    assert choice is not None
    assert (choice["site"], choice["misses"]) == ("east", {"north": "it is mute"})


@pytest.mark.parametrize(
    "other", [{"sites": "/etc/elsewhere.toml"}, {"stale_s": 1}, {"cores": 0}, {"limit_s": 0}, {"more": 1}]
)
def test_for_other_sites_and_settings_it_has_no_answer(choosing: ChoosingBroker, other: dict[str, object]) -> None:
    assert choosing.choice(**other) is None


def test_broker_has_no_choice_before_the_first_site_report(choosing: ChoosingBroker) -> None:
    choosing.federation = replace(choosing.federation, replies={})
    assert choosing.choice() is None


@pytest.mark.parametrize(
    ("other", "reply"), [({"goal": "fame"}, "is not a goal"), ({"script": "x"}, "does not begin with #!")]
)
def test_an_error_in_the_request_is_reported(choosing: ChoosingBroker, other: dict[str, object], reply: str) -> None:
    with pytest.raises(BadInput, match=reply):
        choosing.choice(**other)


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[]\n", b"\xff\n", b"x" * (MOST_CHOICE_BYTES + 2)])
def test_nonsense_is_answered_with_nothing(choosing: ChoosingBroker, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(300)
        connection.connect(str(choosing.folder / SOCKET_NAME))
        connection.sendall(line)
        assert json.loads(connection.makefile().readline()) == {}
    assert choosing.choice() is not None


def test_a_script_that_is_too_long_is_not_sent(choosing: ChoosingBroker) -> None:
    assert choosing.choice(script=SCRIPT + "#" * MOST_CHOICE_BYTES) is None


def test_one_broker_a_folder_and_none_is_no_answer(
    choosing: ChoosingBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(OffpeakError, match="answers there"):
        ChoosingBroker(choosing.folder)
    assert fetch_choice(tmp_path_factory.mktemp("alone"), choosing.question) is None


def test_the_socket_goes_with_the_broker(tmp_path: Path) -> None:
    with serving(ChoosingBroker(tmp_path)):
        assert (tmp_path / SOCKET_NAME).is_socket()
    assert not (tmp_path / SOCKET_NAME).exists()
