"""The messages to systemd, received by a socket like that of systemd."""

import asyncio
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from offpeak.errors import SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.services.agent import site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.service import ALIVE, READY, Service, notify, read_watchdog_s, reloading_state, status_state
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_one_datagram_with_all_states(tmp_path: Path, kind: str) -> None:
    shown = str(tmp_path / "notify") if kind == "file" else f"@offpeak-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(shown.replace("@", "\0", 1))
        systemd.settimeout(300)
        assert notify(READY, status_state("14 nodes on\n2 off"), environment={"NOTIFY_SOCKET": shown})
        assert systemd.recv(4096) == b"READY=1\nSTATUS=14 nodes on 2 off"
        assert notify(reloading_state(12.5), environment={"NOTIFY_SOCKET": shown})
        assert systemd.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=12500000"


@pytest.mark.parametrize("address", ["", "vsock:2:7", "/nowhere/at/all", "@"])
def test_missing_notify_socket_is_ignored(address: str) -> None:
    assert not notify(ALIVE, environment={"NOTIFY_SOCKET": address})
    assert not notify(ALIVE, environment={})


def test_a_systemd_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        sent = [notify(ALIVE, environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) for _ in range(5000)]
    assert sent[0]
    assert not sent[-1]


def test_how_often_systemd_must_be_notified() -> None:
    assert read_watchdog_s({"WATCHDOG_USEC": "30000000"}) == 30
    assert read_watchdog_s({"WATCHDOG_USEC": "0"}) is None
    assert read_watchdog_s({"WATCHDOG_USEC": "soon"}) is None
    assert read_watchdog_s({}) is None


class GatedScheduler(SimulatedScheduler):
    """Answers when it may, and fails while `problem` is one."""

    def __init__(self) -> None:
        super().__init__(SimulatedCluster({"n1": SimNode("n1", 8)}), clock=time.time)
        self.may_answer, self.problem = threading.Event(), SchedulerError("squeue: refused", hint="try squeue")

    def view(self) -> SchedulerView:
        assert self.may_answer.wait(300)
        if self.problem is not None:
            raise self.problem
        return super().view()


def test_watchdog_is_not_notified_before_the_scheduler_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = GatedScheduler()
    monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: scheduler)
    settings = Settings(
        agent=AgentSettings(state_folder=tmp_path, socket=tmp_path / "agent.sock", cycle_s=1, capacity="always-on"),
        prices=PriceSettings(tariff="on=30EUR/MWh,off=30EUR/MWh,hours=00:00-12:00,zone=UTC"),
        ledger=LedgerSettings(url=f"sqlite:///{tmp_path}/ledger"),
    )
    ledger = Ledger(settings.ledger)
    ledger.ready()
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    async def serve(systemd: socket.socket) -> list[str]:
        shown: list[str] = []

        async def until(text: str) -> None:
            async with asyncio.timeout(300):
                while not any(each.startswith(text) for each in shown[-1:]):
                    datagram = await asyncio.get_running_loop().sock_recv(systemd, 65536)
                    lines = datagram.decode().splitlines()
                    shown.extend(line.removeprefix("STATUS=") for line in lines if line.startswith("STATUS="))

        running = asyncio.create_task(Service(agent, lambda: settings).run())
        await until("starting: nothing read yet")
        scheduler.may_answer.set()
        await until("cannot read the scheduler: squeue: refused; try squeue")
        seen = len(shown)
        scheduler.problem = None
        agent.observer.forget()
        await until("all is well")
        assert "all is well" not in shown[:seen]
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        await agent.close()
        return shown

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        asyncio.run(serve(systemd))
