"""Runs the demo: a room of virtual nodes, a simulated scheduler, the real agent and the real page, on a fast clock."""

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from offpeak.clock import FastClock
from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.settings import Settings
from power.agent.agent import Agent
from power.agent.parts import parts_of
from power.agent.service import Service
from power.agent.voice import Voice
from sim_backend.virtual.machine_room import machine_room
from sim_backend.virtual.room_folder import room_logins
from ui.demo.live_cluster import LiveCluster
from ui.demo.outcome import Outcome, outcome_of, summary, without_offpeak
from ui.demo.scenario import BEGIN_S, Coming, jobs_to_come
from ui.demo.site import CLASS, LOG, PRICES, REPORT, DemoPlan, enrol, write_site
from ui.page.access import check_place, place_of

LOOK_S = 0.05
OFFPEAK = (sys.executable, "-c", "from ui.command import main; main()")
REPORT_WORDS = (
    *("simulate", LOG, "--prices", PRICES, "--policy", "easy,greedy", "--node-class", CLASS),
    *("--capacity", "always-on,timeout:20min", "--report", REPORT),
)
Say = Callable[[str], None]


def run_demo(plan: DemoPlan, say: Say) -> None:
    """Run it to its end, and say what it came to. BadInput where an address cannot be had."""
    _check_free(plan.listen)
    jobs = jobs_to_come(plan.nodes, plan.length_s)
    settings = write_site(plan, jobs)
    logging.basicConfig(filename=plan.folder / "agent.log", level=logging.INFO, format="%(asctime)s %(message)s")
    with beside("report", plan, *REPORT_WORDS) as report:
        with beside("page", plan, "page", "--config", str(plan.settings_file)):
            say(f"the page: http://{plan.listen}/")
            hours = plan.length_s / 3600
            say(f"{plan.nodes} virtual nodes, {len(jobs)} jobs, {hours:.0f} hours in {plan.seconds:.0f} s")
            done = asyncio.run(_play(plan, settings, jobs))
        without = without_offpeak(jobs, plan.room.nodes, plan.node_class, plan.length_s)
        say(f"\n{summary(done, without)}\n")
        # The first one ever waits for the engine to be compiled.
        report.wait()
    say(f"the report on the same log: {plan.folder / REPORT}")


async def _play(plan: DemoPlan, settings: Settings, jobs: tuple[Coming, ...]) -> Outcome:
    ledger = Ledger(settings.ledger)
    ledger.ready()
    async with machine_room(plan.room, room_logins(plan.folder)) as room:
        enrol(plan, room)
        clock = FastClock(plan.factor, BEGIN_S)
        live = LiveCluster(room, deque(jobs), clock.unix_s)
        try:
            await _serve(plan, settings, live, ledger, clock)
        finally:
            await asyncio.to_thread(ledger.close)
        return outcome_of(live.cluster, BEGIN_S + plan.length_s, energy_j=live.energy_j, cost=live.cost)


async def _serve(plan: DemoPlan, settings: Settings, live: LiveCluster, ledger: Ledger, clock: FastClock) -> None:
    parts = replace(parts_of(settings, clock.clock), scheduler=live)
    agent = Agent(parts, ledger, Voice(clock.unix_s))
    service = Service(agent, lambda: settings)
    # What is loaded and compiled at first would take hours of that day.
    for rounds in agent.rounds:
        await rounds.once()
    clock.start()
    following = asyncio.create_task(_follow(live, service, BEGIN_S + plan.length_s))
    try:
        await service.run()
    finally:
        following.cancel()
        await agent.close()


async def _follow(live: LiveCluster, service: Service, until_s: float) -> None:
    while live.clock() < until_s:
        live.follow()
        await asyncio.sleep(LOOK_S)
    service.end()


def _check_free(listen: str) -> None:
    """Raise BadInput where the page could not listen."""
    host, port = place_of(listen)
    check_place(host, None)
    try:
        with socket.create_server((host, port)):
            return
    except OSError as problem:
        hint = "something else listens there: give another place, such as --listen 127.0.0.1:8018"
        raise BadInput(f"{listen}: {problem.strerror}", hint=hint) from None


@contextmanager
def beside(name: str, plan: DemoPlan, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run an `offpeak` command beside the demo, which ends it; what it says goes to a log."""
    with (plan.folder / f"{name}.log").open("wb") as log:
        command = (*OFFPEAK, *words)
        process = subprocess.Popen(command, cwd=plan.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
