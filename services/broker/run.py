"""The entry of `offpeak broker`: runs the poller, and beside it the servers for portals and commands."""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offpeak.errors import BadInput, BadSetting, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.machines.credentials import Secret, read_secret
from offpeak.settings.table import Settings
from services.broker.portal import BrokerPortal
from services.broker.servers import ChoiceServer, WebServer
from services.broker.site_poller import LOG, Poller


def run_broker(settings: Settings, listen: str) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. BadInput for what cannot be used."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    place, broker = parse_listen(listen), settings.broker
    if broker.token_file is None:
        hint = "(umask 077; openssl rand -hex 32 >FILE), and name it: token_file below [broker]"
        raise BadSetting("broker.token_file: is not set", hint=hint)
    token = read_secret(broker.token_file)
    secret = None if broker.secret_file is None else read_secret(broker.secret_file)
    ledger = Ledger(settings.ledger)
    try:
        poller = Poller(broker, ledger, socket=settings.agent.socket, state_folder=settings.agent.state_folder)
        ledger.ready()
        questions = BrokerPortal(poller, broker, ledger, settings.agent.socket)
        with _bind(place, questions, (token, secret)) as server, _serve_choices(questions, settings.agent.state_folder):
            threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
            LOG.info("listens at %s:%d in mode %s", *server.server_address[:2], broker.mode)
            asyncio.run(_poll(poller))
            server.shutdown()
    finally:
        lost = ledger.close()
    return 1 if lost else 0


def parse_listen(listen: str) -> tuple[str, int]:
    """Return host and port; BadInput if that is none."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"--listen {listen}: is no place", hint="write it like 127.0.0.1:8450")
    return host, int(port)


def _bind(place: tuple[str, int], questions: BrokerPortal, secrets: tuple[Secret, Secret | None]) -> WebServer:
    try:
        return WebServer(place, questions, *secrets)
    except OSError as problem:
        hint = "--listen names another place; is a broker running already?"
        raise OffpeakError(f"{place[0]}:{place[1]}: {problem.strerror}", hint=hint) from None


@contextmanager
def _serve_choices(questions: BrokerPortal, state_folder: Path) -> Iterator[None]:
    """Answer `offpeak choose` meanwhile; where that cannot be, each looks at what is kept of the sites itself."""
    try:
        server = ChoiceServer(state_folder, questions.settings, questions.federation)
    except OffpeakError as problem:
        LOG.warning("offpeak choose is not answered: %s", problem)
        yield
        return
    with server:
        threading.Thread(target=server.serve_forever, name="choosing", daemon=True).start()
        yield
        server.shutdown()


async def _poll(poller: Poller) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    polling, pruning = asyncio.create_task(poller.run()), asyncio.create_task(poller.prune())
    await asyncio.wait({polling, asyncio.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
    polling.cancel()
    pruning.cancel()
    if not ended.is_set():
        await polling
