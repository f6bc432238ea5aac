"""The minutes of a stranger: from `git clone` by the README's commands to what was saved, and why.

`python -m benchmarks.first_minutes` clones this repository into a temporary folder, with nothing from a cache, and runs
`make demo`, then `offpeak estimate` on the bundled sample in a terminal. It prints after how many seconds each answer
was on the screen. Reading is not counted.
"""

import os
import pty
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import machine

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = "sim_backend/sample/sample_sacct.txt.gz", "sim_backend/sample/sample_prices_eur_per_mwh.csv.gz"
ESTIMATE = (".venv/bin/offpeak", "estimate", SAMPLE[0], "--prices", SAMPLE[1], "--time-zone", "Europe/Berlin")
SAVED, WOULD_HAVE_SAVED = r"^saved: (.+)$", r"^(.+ would have saved [^:]+)"
CONTROL = re.compile(r"\r|\x1b\[[0-9;?]*[A-Za-z]")
HIGHEST_S = 900.0


def seconds_until(text: str, command: Sequence[str], folder: Path) -> tuple[float, float, str]:
    """Return the seconds until a terminal shows the pattern, and until the command ends, and what it showed.

    Raises RuntimeError if the command ends without it.
    """
    ours, its = pty.openpty()
    environment = os.environ | {"CI": "1", "PIP_NO_CACHE_DIR": "1", "COLUMNS": "200"}
    begin_s, shown, found_s, found = time.monotonic(), b"", None, None
    running = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    os.close(its)
    try:
        while time.monotonic() < begin_s + HIGHEST_S:
            try:
                part = os.read(ours, 65_536)
            except OSError:
                break
            shown += part
            plain = CONTROL.sub("", shown.decode(errors="replace"))
            if found is None and (found := re.search(text, plain, re.MULTILINE)):
                found_s = time.monotonic() - begin_s
            if not part:
                break
    finally:
        running.terminate()
        running.wait()
        os.close(ours)
    if found is None or found_s is None:
        raise RuntimeError(f"{' '.join(command)}: shows no {text!r}:\n{shown.decode(errors='replace')}")
    return found_s, time.monotonic() - begin_s, found[1]


def processor_s() -> float:
    """Return the processor time of the commands that have ended [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, and print a line for each answer."""
    with tempfile.TemporaryDirectory() as folder:
        clone, begin_s = Path(folder) / "offpeak", time.monotonic()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        print(f"{machine()}; load average {os.getloadavg()[0]:.0f}")
        print(f"git clone: {time.monotonic() - begin_s:.0f} s", flush=True)
        cloned_s = time.monotonic()
        for name, pattern, command in (
            ("make demo", SAVED, ("make", "demo")),
            ("offpeak estimate, then", WOULD_HAVE_SAVED, ESTIMATE),
        ):
            before_s = processor_s()
            first_s, whole_s, found = seconds_until(pattern, command, clone)
            used = f"ends after {whole_s:.0f} s, {processor_s() - before_s:.0f} s of processor time"
            print(f"{name}: after {first_s:.0f} s: {found}; {used}", flush=True)
        print(f"load average {os.getloadavg()[0]:.0f}; all: {time.monotonic() - cloned_s:.0f} s")


if __name__ == "__main__":
    main()
