"""A collector sweeps virtual BMCs and a PDU, the page takes its posts over TLS, and any of them may be killed."""

import json
import os
import re
import signal
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path

from own_certificate import write_certificate
from served_room import planned, served_room

from benchmarks.local_slurm.processes import listens, reserved_ports, wait_until
from offpeak.sim_backend.virtual.room_plan import room_logins, write_inventory

OFFPEAK = (sys.executable, "-c", "from offpeak.ui.command import main; main()")
REPOSITORY = Path(__file__).resolve().parents[2]
TOKEN = "c0ffee" * 8


class Site:
    """The agent, the page and a collector of one host, each in a process of its own."""

    def __init__(self, folder: Path, port: int, ends: ExitStack) -> None:
        self.folder, self.port, self._ends = folder, port, ends
        self.certificate = write_certificate(folder / "page.pem", "127.0.0.1")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "state").mkdir()
        (folder / "offpeak.toml").write_text(
            f'[agent]\nscheduler = "torque"\nstate_folder = "{folder}/state"\nsocket = "{folder}/a.sock"\n'
            'cycle = "1s"\n'
            f'[ledger]\nurl = "sqlite:///{folder}/ledger.sqlite"\n[hardware]\ninventory = "{folder}/inventory.toml"\n'
            f'[page]\nlisten = "127.0.0.1:{port}"\ncertificate = "{self.certificate}"\n'
        )

    def start(self, name: str) -> None:
        """Start "agent", "page" or "east"."""
        command = {"agent": ("agent",), "page": ("page",), "east": ("agent", "--collector", "east")}[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                (*OFFPEAK, *command, "--config", str(self.folder / "offpeak.toml")),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
            )
        self.processes[name] = process
        self._ends.callback(self.end, process)

    @staticmethod
    def end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
        process.wait()

    def kill(self, name: str) -> None:
        """Kill a process as the kernel does when memory runs out."""
        os.kill(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def rows(self, node: str = "n2") -> list[tuple[float, float, float]]:
        """Return begin, end and energy of the BMC's readings of that node, in their order."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder}/ledger.sqlite?mode=ro", uri=True)) as ledger:
                return ledger.execute(
                    "select from_unix_s, until_unix_s, energy_j from readings join series on number = series "
                    "where node = ? and way = 'dcmi' and energy_j is not null order by 1",
                    (node,),
                ).fetchall()
        except sqlite3.OperationalError:
            return []

    def counted_since(self, unix_s: float) -> bool:
        return any(until > unix_s for _, until, _ in self.rows())

    def problems(self) -> str:
        done = subprocess.run(
            (*OFFPEAK, "status", "--json", "--config", str(self.folder / "offpeak.toml")),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        return "" if done.returncode else "; ".join(json.loads(done.stdout)["troubles"])

    def post(self, body: bytes, token: str = TOKEN, name: str = "east") -> tuple[int, str]:
        """Post to the page as anybody can, and return status and reply."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/collectors/{name}", body, method="POST")
        request.add_header("Authorization", f"Bearer {token}")
        try:
            context = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(request, timeout=300, context=context) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    plan = planned("n[1-3]")
    write_inventory(folder, plan, node_class="server", made_by="a test")
    secret = folder / "east.token"
    secret.touch(0o600)
    secret.write_text(f"{TOKEN}\n")
    with ExitStack() as ends, reserved_ports(1) as (port,), served_room(plan, room_logins(folder)):
        with (folder / "inventory.toml").open("a") as inventory:
            inventory.write(
                '[credentials.east]\npassword_file = "east.token"\n'
                '[collectors.east]\nnodes = "n[2-3]"\npdus = "rack1"\n'
                f'credential = "east"\nurl = "https://127.0.0.1:{port}"\nverify = "page.pem"\n'
            )
        site = Site(folder, port, ends)
        for name in ("agent", "page", "east"):
            site.start(name)
        wait_until(lambda: listens(port), what="the page")
        yield site


def test_sweeps_reach_the_ledger_once_whoever_is_killed(tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        wait_until(lambda: len(site.rows()) > 2, what="sweeps of the collector")
        # The head node reads the other node itself.
        wait_until(lambda: len(site.rows("n1")) > 2, what="sweeps of the agent")
        assert "n1" not in site.log("east")

        site.kill("page")
        time.sleep(6)
        site.start("page")
        again_s = time.time()
        wait_until(lambda: site.counted_since(again_s), what="sweeps after the page")

        site.kill("agent")
        time.sleep(6)
        site.start("agent")
        again_s = time.time()
        wait_until(lambda: site.counted_since(again_s), what="sweeps after the agent")

        site.kill("east")
        # Its last reading counts for some seconds, and a gap is longer than five.
        time.sleep(12)
        # A post that was under way when the collector died may end the silence once more.
        unknown = re.compile("collector east: silent since [^;]*: the power of 2 nodes and 1 PDU is not known")
        wait_until(lambda: bool(unknown.search(site.problems())), what="silence in the status")
        gone_s = time.time()
        site.start("east")
        wait_until(lambda: site.counted_since(gone_s + 3), what="sweeps of the new collector")
        wait_until(lambda: "silent" not in site.problems(), what="the end of the silence")

        rows = site.rows()
        assert all(until <= begin for (_, until, _), (begin, _, _) in pairwise(rows)), "counted twice"
        gaps = [(until, begin) for (_, until, _), (begin, _, _) in pairwise(rows) if begin - until > 5]
        # Nothing is missing of the time without a page or without an agent, but of the one without the collector.
        assert len(gaps) <= 2, gaps
        assert gaps[-1][1] >= gone_s - 1
        assert all(abs(energy / (until - begin) - 200) < 20 for begin, until, energy in rows if until - begin > 0.1)

        assert site.post(b"{}", token="guessed") == (403, '{"detail":"no collector east, or not its token"}')
        assert site.post(b"{}", name="west")[0] == 403
        assert site.post(b"x" * 800_001)[0] == 413
        assert site.post(b"{")[0] == 400
        assert site.post(b'{"at_unix_s": 1}')[0] == 409
        wrong_clock = {"at_unix_s": time.time() + 60, "sent_unix_s": time.time() + 60, "reports": []}
        status, said = site.post(json.dumps(wrong_clock).encode())
        assert status == 409
        assert re.search(r"its clock is \d+ s ahead of that of the agent", said)
        for name in ("east", "agent"):
            site.processes[name].terminate()
            assert site.processes[name].wait(300) == 0
