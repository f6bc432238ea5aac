"""Runs the demo: a room of virtual nodes, a simulated scheduler, the real agent and the real page, on a fast clock."""

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from textwrap import shorten

from offpeak.display import money_text, power_text
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.database import open_ledger, query_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.records import Record, decisions_in
from offpeak.log_lines import begin_log
from offpeak.machines.node_sets import fold
from offpeak.model.clock import FastClock
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_states import ACTIVE
from offpeak.model.time_range import TimeRange
from offpeak.model.zones import machine_zone
from offpeak.plugin.queue_hook.positions import EXPECTED_SAVING
from offpeak.plugin.queue_hook.queue_plan import BACK, FORWARD
from offpeak.prices.peak import Peak
from offpeak.process import locked_file
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.service import Service
from offpeak.services.agent.site_context import make_site_context
from offpeak.services.page.access import check_page_listen, parse_page_listen
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.site_jobs import cluster_note
from offpeak.sim_backend.virtual.machine_room import machine_room
from offpeak.sim_backend.virtual.room_plan import RoomPlan, room_logins
from offpeak.text import counted
from offpeak.ui.agent.command import check_needs
from offpeak.ui.demo.live_cluster import STEP_S, LiveCluster, outcome_of, summary, without_offpeak
from offpeak.ui.demo.site import (
    BEGIN_S,
    REPORT,
    SETTINGS,
    DemoJob,
    DemoPlan,
    enrol,
    jobs_to_come,
    make_folder,
    write_site,
)

LOOK_S = 0.05
PORTS = 100
"""As many ports are tried: each user of a machine may run a demo."""
PAGE_BEGINS_S = 600.0
LEDGER_PATIENCE_S = 120.0
"""No real node depends on the demo's ledger, and a slow machine may take a minute to make its tables."""
OFFPEAK = (sys.executable, "-c", "from offpeak.ui.command import main; main()")
Say = Callable[[str], None]
Process = subprocess.Popen[bytes]


def run_demo(plan: DemoPlan, say: Say, *, stays: bool) -> None:
    """Run the demo and print its outcome; if it `stays`, the agent and the page answer until a signal ends them.

    Raises BadInput if an address cannot be had, or the page is not installed.
    """
    check_needs()
    _check_free(plan.listen)
    jobs = jobs_to_come(plan.nodes, plan.length_s)
    lock = locked_file(
        make_folder(plan), message=f"another demo runs in {plan.folder}", hint="a second one needs --folder demo2"
    )
    with lock:
        settings = write_site(plan)
        begin_log("%(asctime)s %(message)s", plan.folder / "agent.log")
        with beside("page", plan, "page", "--config", str(plan.settings_file)) as page:
            _wait_for_page(plan, page)
            say(f"the page: http://{plan.listen}/")
            say(f"{plan.nodes} virtual nodes, {len(jobs)} jobs, {plan.hours:.0f} hours in {plan.seconds:.0f} s")
            say(
                f"{cluster_note(plan.cluster)}; partitions {' and '.join(plan.cluster.partitions)}".replace(
                    "; ", "\n  "
                )
            )
            say(f"in another terminal, try status or queue:\n  {_command('status', plan)}\n")
            asyncio.run(Demo(plan, settings, jobs, say, stays=stays).run())


WATCH_S = 600.0
"""How often it is noted that the agent sees all jobs; gaps of twice that would leave the order out of the account."""
SCENE_S, TALLY_S = 1200.0, 2 * HOUR_S
"""How often the story goes on, and how often it counts what was saved, in the time of the demo."""
WIDTH = 78
SLEEP, WAKE, DELAYED = "is put to sleep", "is woken", "delayed"


@dataclass
class Story:
    """Prints the steps of the day: what the agent decides, why, and what it saves. Its source is the agent's ledger."""

    plan: DemoPlan
    live: LiveCluster
    agent: SiteAgent
    say: Say
    _scene_s: float = BEGIN_S
    _tally_s: float = BEGIN_S
    _peak: Peak | None = None
    _known: set[tuple[float, str, str]] = field(default_factory=set)
    _lines: list[tuple[float, str]] = field(default_factory=list)

    def tell(self, now_s: float) -> None:
        """Print what happened since the last call, if that is long enough ago."""
        if now_s < self._scene_s + SCENE_S:
            return
        with open_ledger(f"sqlite:///{self.plan.folder}/ledger.sqlite") as connection:
            # A decision is in the ledger some time after it was made.
            found = decisions_in(connection, TimeRange(self._scene_s - 2 * SCENE_S, now_s))
        self._scene_s = now_s
        self._tell_price(int(now_s))
        steps: dict[str, list[Record]] = defaultdict(list)
        for each in found:
            key = each["at_unix_s"], each["subject"], each["decided"]
            if key not in self._known:
                self._known.add(key)
                steps[each["decided"]].append(each)
        for decided, records in steps.items():
            at_s, why, subjects = (
                records[0]["at_unix_s"],
                records[0]["reason"],
                [str(each["subject"]) for each in records],
            )
            if decided == SLEEP:
                saved_w = len(subjects) * (self.plan.node_class.idle_w - self.plan.node_class.asleep_w)
                self._line(at_s, f"asleep: {fold(subjects)}, saves {power_text(saved_w)}", why)
            elif decided == WAKE:
                self._line(at_s, f"awake:  {fold(subjects)}, for jobs")
            elif decided == DELAYED:
                expected = money_text(sum(dict(each["inputs"]).get(EXPECTED_SAVING, 0.0) for each in records), "EUR")
                self._line(at_s, f"{' and '.join(subjects)} wait, as their owners allow: {expected} expected", why)
        if forward := steps[FORWARD]:
            text = f"the queue is reordered: {counted(len(forward), 'job')} forward, {len(steps[BACK])} back"
            self._line(forward[0]["at_unix_s"], text, f"{forward[0]['subject']} goes {forward[0]['reason']}")
        if now_s >= self._tally_s + TALLY_S:
            self._tally_s = now_s
            asleep = sum(node.now().state != ACTIVE for node in self.live.room.nodes.values())
            text = f"{asleep} of {self.plan.nodes} nodes sleep"
            if saved := self.agent.savings.today.cost:
                text += f"; saved so far: {money_text(saved, 'EUR')}"
            self._line(now_s, text)
        for _, line in sorted(self._lines, key=lambda each: each[0]):
            self.say(line)
        self._lines.clear()

    def _tell_price(self, now_s: int) -> None:
        curve = self.agent.prices.curve and self.agent.prices.curve.decisions
        if curve is None or (peak := curve.peak_at(now_s)) == self._peak:
            return
        self._peak, until = peak, self._clock(curve.peak_until_s(now_s))
        since_s = max(BEGIN_S, int(curve.series.start_s[curve.at(now_s)]))
        price = money_text(float(curve.series.value[curve.at(now_s)]), curve.series.unit)
        what, which = ("high", "low-power") if peak == Peak.ON_PEAK else ("low", "high-power")
        self._line(since_s, f"prices are {what} until {until} ({price}): {which} jobs go first")

    def _line(self, at_s: float, text: str, why: str = "") -> None:
        lines = [f"{self._clock(at_s)}  {shorten(text, WIDTH - 7, placeholder=' ...')}"]
        if why:
            lines.append(f"       {shorten(why, WIDTH - 7, placeholder=' ...')}")
        self._lines.append((at_s, "\n".join(lines)))

    def _clock(self, at_s: float) -> str:
        return f"{datetime.fromtimestamp(at_s, machine_zone()):%H:%M}"


@dataclass
class Demo:
    """One day of the demo."""

    plan: DemoPlan
    settings: Settings
    jobs: tuple[DemoJob, ...]
    say: Say
    stays: bool
    _watched_s: float = 0.0

    async def run(self) -> None:
        """Play the day."""
        ledger = ready_ledger(self.settings.ledger)
        async with machine_room(self.plan.room, room_logins(self.plan.folder)) as room:
            enrol(self.plan, room)
            clock = FastClock(self.plan.factor, BEGIN_S)
            live = LiveCluster(room, self.plan.cluster, deque(self.jobs), clock.unix_s)
            parts = replace(make_site_context(self.settings, clock.clock), scheduler=live.scheduler)
            agent = SiteAgent(parts, ledger, ProblemLog(clock.unix_s))
            # What is loaded and compiled at first would take hours of that day.
            for runner in agent.runners:
                await runner.once()
            clock.start()
            service = Service(agent, lambda: _hung_up(service))
            day = asyncio.create_task(self._day(live, service, agent, clock))
            day.add_done_callback(lambda _: service.end())
            try:
                await service.run()
                await day
            finally:
                day.cancel()
                await agent.close()

    async def _day(self, live: LiveCluster, service: Service, agent: SiteAgent, clock: FastClock) -> None:
        """Follow the clock to the end of the day or until a signal, print the outcome, and end the service."""
        ending = asyncio.create_task(service.ends())
        until_s, story = BEGIN_S + self.plan.length_s, Story(self.plan, live, agent, self.say)
        while clock.unix_s() < until_s and not ending.done():
            live.follow()
            # Note that the agent sees all jobs: the loop that books the order pauses by real time, here for ten
            # hours.
            view = agent.observer.latest
            if view is not None and view.at_s >= self._watched_s + WATCH_S:
                self._watched_s = view.at_s
                await agent.levers.watch(float(view.at_s))
            story.tell(clock.unix_s())
            await asyncio.sleep(LOOK_S)
        at_s = min(clock.unix_s(), until_s)
        if not ending.done():
            # From now on the agent answers, and changes nothing.
            async with agent.between_rounds():
                clock.stop()
                agent.problem_log.report("demo", "its day is over; this is its last state")
                await self._conclude(live, agent, at_s, ending)
        else:
            await self._conclude(live, agent, at_s, ending)
        service.end()

    async def _conclude(self, live: LiveCluster, agent: SiteAgent, at_s: float, ending: "asyncio.Task[None]") -> None:
        """Print the day's outcome, write its report, and wait for a signal where the demo stays."""
        plan, length_s = self.plan, at_s - BEGIN_S
        if length_s < STEP_S:
            return
        # What is booked from now on is of no later time.
        for loop in (agent.meters, agent.levers, agent.savings):
            await loop.round()
        await asyncio.to_thread(agent.ledger.settle, LEDGER_PATIENCE_S)
        await agent.savings.round()
        without = await asyncio.to_thread(without_offpeak, self.jobs, plan.cluster, plan.node_class, length_s)
        # By its meters, as the report and `offpeak ledger energy` have it.
        day, url = TimeRange(BEGIN_S, BEGIN_S + plan.length_s + DAY_S), agent.ledger.settings.url
        used = await asyncio.to_thread(lambda: query_ledger(url, node_energy, day, (), machine_zone()))
        energy_j, cost = (sum(getattr(each, name) or 0.0 for each in used) for name in ("energy_j", "cost"))
        with_ = outcome_of(live.cluster, at_s, energy_j=energy_j, cost=cost)
        if length_s < plan.length_s:
            self.say(f"\nended after {length_s / HOUR_S:.1f} of {plan.hours:.0f} hours; until then:")
        self.say(f"\n{summary(with_, without, agent.savings.today, factor=plan.factor)}\n")
        begin = datetime.fromtimestamp(BEGIN_S, machine_zone())
        if not ending.done():
            self.say(f"the report of its month: {await asyncio.to_thread(write_report, plan, f'{begin:%Y-%m}')}")
            self.say(f"what was decided and done:\n  {_command('history', plan, '--since', f'{begin:%Y-%m-%d}')}")
            self.say("the same with your own jobs, and on a cluster's head node:")
            self.say(f"  {_program()} simulate LOG --prices PRICES.csv --report report.html")
            self.say(f"  {_program()} estimate --prices PRICES.csv")
        if self.stays and not ending.done():
            self.say(f"\nThe page stays at http://{plan.listen}/ until Ctrl-C.")
            await ending


def write_report(plan: DemoPlan, month: str) -> str:
    """Write the report of the month, and return its path, or why there is none."""
    options = ("--month", month, "--html", REPORT, "--config", SETTINGS)
    with beside("report", plan, "report", *options) as report:
        if report.wait() == 0:
            return str(plan.folder / REPORT)
    return f"none; {plan.folder / 'report.log'} says why"


def ready_ledger(settings: LedgerSettings) -> Ledger:
    """Return the demo's ledger, with its tables. Raises CannotWrite if it does not answer for minutes."""
    ledger = Ledger(settings, patience_s=LEDGER_PATIENCE_S)
    ledger.ready()
    return ledger


def _hung_up(service: Service) -> Settings:
    """End the demo on SIGHUP, which here means that the terminal was closed."""
    service.end()
    raise OffpeakError("the demo ends: its terminal was closed")


def _program() -> str:
    """Return the name of this command, with its path if it is not on PATH."""
    program = sys.argv[0]
    return program if program.endswith("/offpeak") and shutil.which("offpeak") != program else "offpeak"


def _command(name: str, plan: DemoPlan, *options: str) -> str:
    """Return the command line that asks the demo from the present folder."""
    file = plan.settings_file
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return shlex.join([_program(), name, *options, "--config", str(file)])


def _wait_for_page(plan: DemoPlan, page: Process) -> None:
    """Wait until the page listens. Raises OffpeakError if it ends before."""
    place, until_s = parse_page_listen(plan.listen), time.monotonic() + PAGE_BEGINS_S
    while page.poll() is None and time.monotonic() < until_s:
        try:
            with socket.create_connection(place, timeout=1.0):
                return
        except OSError:
            time.sleep(LOOK_S)
    text = (plan.folder / "page.log").read_text().strip()
    raise OffpeakError(f"the page does not answer at {plan.listen}: {text or 'no answer'}")


def _check_free(listen: str) -> None:
    """Raise BadInput where the page could not listen."""
    host, port = parse_page_listen(listen)
    check_page_listen(host, None)
    try:
        with socket.create_server((host, port)):
            return
    except OSError as problem:
        hint = "without --listen the demo uses a free port"
        raise BadInput(f"{listen}: {os.strerror(problem.errno or 0)}", hint=hint) from None


def first_free_port(host: str, first: int, kind: socket.SocketKind) -> int:
    """Return the first port from `first` on at which nothing listens, `first` if there is none.

    Until this process ends, no other demo gets it, also one that begins at the same time.
    """
    for port in range(first, first + PORTS):
        with socket.socket(type=kind) as probe, suppress(OSError):
            # As a server does: connections of an earlier demo may still be closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
            probe.bind((host, port))
            # What a demo listens at is elsewhere: the page at another address, BMCs by UDP.
            socket.create_server((RoomPlan.bmc_host, port)).detach()
            return port
    return first


@contextmanager
def beside(name: str, plan: DemoPlan, *arguments: str) -> Iterator[Process]:
    """Run an `offpeak` command while the demo runs; its output goes to a log."""
    with (plan.folder / f"{name}.log").open("wb") as log:
        command = (*OFFPEAK, *arguments)
        process = subprocess.Popen(command, cwd=plan.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
