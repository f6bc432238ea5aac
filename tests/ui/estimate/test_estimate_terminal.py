"""`offpeak estimate` on a real terminal: it asks for prices, refines its answer, and Ctrl-C keeps what is shown."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from offpeak.sim_backend.sample import SAMPLE_PRICES, SAMPLE_SACCT
from offpeak.ui.estimate.estimate import REFINING

OFFPEAK = Path(sys.executable).with_name("offpeak")
ROWS = 35
PATIENCE_S, SILENT_S = 300, 10
CTRL_C = "\x03"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
SAMPLE = (SAMPLE_SACCT, "--time-zone", "Europe/Berlin", "--days", "3")
ASKED = "Enter assumes that one"
LAST_SECTION = "What to do next"


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, pid: int, master: int) -> None:
        self.pid, self.master, self._bytes, self._again = pid, master, b"", ""

    @property
    def printed(self) -> str:
        """What was printed so far, with a form feed for each move upwards and without other control sequences."""
        return CONTROL.sub("", self._bytes.decode(errors="replace").replace("\x1b[1A", "\f"))

    def read_until(self, is_there: Callable[[str], bool]) -> str:
        """Return what was printed until that, or to the end."""
        limit_s = time.monotonic() + PATIENCE_S
        while not is_there(self.printed):
            assert time.monotonic() < limit_s, self.printed
            if not select.select([self.master], [], [], SILENT_S)[0]:
                self.type(self._again)
                continue
            try:
                self._bytes += os.read(self.master, 65536)
            except OSError:  # Linux ends a terminal so
                break
        return self.printed

    def type(self, keys: str) -> None:
        """Press the keys."""
        os.write(self.master, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C; once more if nothing follows: Python misses one between its prompt and its reading."""
        self._again = CTRL_C
        self.type(CTRL_C)

    def exit_code(self) -> int:
        """Return the exit status of the command, once it has ended."""
        self.read_until(lambda _: False)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def last_screen(self) -> str:
        """Return the answer that is left on the terminal: it replaced the one before, and is not refined any more."""
        last = self.printed.rpartition("\f")[2]
        assert REFINING not in last
        return last


@contextmanager
def terminal(
    folder: Path, environment: dict[str, str], *arguments: str | Path, columns: int = 80
) -> Iterator[Terminal]:
    """Run `offpeak estimate` in a terminal of so many columns."""
    shown = environment | {"TERM": "xterm"}
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(OFFPEAK, [str(OFFPEAK), "estimate", *map(str, arguments)], shown)
    try:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        yield Terminal(pid, master)
    finally:
        os.close(master)


def check_screen(screen: str, columns: int) -> None:
    assert "EUR a year" in screen
    assert screen.count(LAST_SECTION) == 1
    assert max(map(len, screen.splitlines())) <= columns


def test_it_asks_for_prices_and_refines_what_it_shows(environment: dict[str, str], tmp_path: Path) -> None:
    with terminal(tmp_path, environment, *SAMPLE) as shown:
        shown.read_until(lambda text: ASKED in text)
        shown.type("on=0.21EUR/kWh,off=0.14EUR/kWh,hours=06:00-22:00\n")
        assert shown.exit_code() == 0
    assert [number for number in (10, 20) if f"{REFINING}{number} replays" in shown.printed] == [10, 20]
    check_screen(shown.last_screen(), 80)
    assert "210 EUR/MWh from 06:00 to 22:00" in " ".join(shown.last_screen().split())
    assert "No prices are given" not in shown.last_screen()
    assert re.search(
        r"replays: order 20, sleep 20 of the last \d+ days, caps 4 of", " ".join(shown.last_screen().split())
    )


def test_a_bad_tariff_is_one_line_with_a_hint(environment: dict[str, str], tmp_path: Path) -> None:
    with terminal(tmp_path, environment, *SAMPLE) as shown:
        shown.read_until(lambda text: ASKED in text)
        shown.type("on=cheap\n")
        assert shown.exit_code() == 2
    assert "offpeak: error: " in shown.printed
    assert "hint: " in shown.printed
    assert "Traceback" not in shown.printed


def test_ctrl_c_at_the_question_asks_nothing_more(environment: dict[str, str], tmp_path: Path) -> None:
    with terminal(tmp_path, environment, *SAMPLE) as shown:
        shown.read_until(lambda text: ASKED in text)
        shown.interrupt()
        assert shown.exit_code() == 130
    assert LAST_SECTION not in shown.printed


def test_ctrl_c_keeps_the_last_answer_whole(environment: dict[str, str], tmp_path: Path) -> None:
    log = (*SAMPLE[:-1], "30", "--prices", SAMPLE_PRICES)
    with terminal(tmp_path, environment, *log, "--report", "page.html", columns=60) as shown:
        first = shown.read_until(lambda text: f"{REFINING}10 replays" in text and "EUR a year" in text)
        assert LAST_SECTION not in first  # a screen has 35 rows, and what pays comes first
        shown.interrupt()
        assert shown.exit_code() == 0
    check_screen(shown.last_screen(), 60)
    assert "Traceback" not in shown.printed
    assert "EUR a year" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_budget_stops_the_refinement(environment: dict[str, str], tmp_path: Path) -> None:
    def replays(*arguments: str) -> str:
        done = subprocess.run(
            [OFFPEAK, "estimate", *SAMPLE, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        found = re.search(r"replays: order (\d+)", done.stdout)
        return found[1] if found else done.stderr

    assert replays("--budget", "1s") == "4"
    assert "--budget and --replays cannot be combined" in replays("--budget", "1s", "--replays", "10")
