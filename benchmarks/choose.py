"""`offpeak submit --dry-run` over eight live sites with a broker and without, and `--version`: cold processes."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.bars import Measured
from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.peers import peer
from offpeak.plugin.federation.site_report import SiteReport, WaitTable

OFFPEAK = (sys.executable, "-P", "-c", "from offpeak.ui.command import main; main()")
RUNS = 10
SITES = 8
SITE = """\
[sites.s{number}]
nodes = {nodes}
cores_per_node = 4
core_power = "25W"
gflops_per_core = 9.0
pue = 1.5
time_zone = "UTC"
tariff = "on=90EUR/MWh,off=30EUR/MWh"
esc = "{esc}g/kWh"
reach = "local"
"""
SETTINGS = """\
[agent]
socket = "{folder}/agent.sock"
state_folder = "{folder}"

[broker]
sites = "{folder}/sites.toml"
token_file = "{folder}/token"
poll = "1min"

[ledger]
url = "sqlite:///{folder}/ledger.sqlite"
"""
IDLE = SiteReport(0.0, "c", "slurm 22", 32, 32, 0, 0, WaitTable((32,), (86_400,), ((0.0,),)))


def choose_benchmarks() -> Iterator[Measured]:
    """Measure the median of ten runs."""
    with tempfile.TemporaryDirectory() as name, peer("agent_socket").agent_socket(Path(name) / "agent.sock") as agent:
        folder = _folder(Path(name))
        agent.site = replace(IDLE, at_unix_s=time.time())
        choose = ("submit", "--dry-run", "--config", str(folder / "offpeak.toml"), str(folder / "job.sh"))
        with _broker(folder):
            yield from _measured("offpeak submit --dry-run, answered by the broker", choose, 200.0, "8 live sites")
        yield from _measured("the same without a broker, answers kept", choose, float("inf"), "8 sites")
    yield from _measured("offpeak --version", ("--version",), float("inf"), "")


def _measured(what: str, arguments: tuple[str, ...], bar: float, data: str) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        runs = [_run_ms(arguments, environment) for _ in range(RUNS + 1)][1:]
    yield Measured(what, median(wall_ms for wall_ms, _ in runs), "ms", bar, False, data)
    yield Measured("its processor time", median(cpu_ms for _, cpu_ms in runs), "ms", bar, False, data)


def _run_ms(arguments: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """Return wall and processor time [ms] of one run, compiled before as an installed one is."""
    before, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run((*OFFPEAK, *arguments), check=True, stdout=subprocess.DEVNULL, env=environment)
    wall_s, after = time.perf_counter() - begin_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * wall_s, 1000 * cpu_s


def _folder(folder: Path) -> Path:
    sites = [SITE.format(number=number, nodes=8 + number, esc=50 + 10 * number) for number in range(SITES)]
    (folder / "sites.toml").write_text("".join(sites))
    (folder / "offpeak.toml").write_text(SETTINGS.format(folder=folder))
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH --ntasks=4 --time=60\nhostname\n")
    (folder / "token").touch(0o600)
    (folder / "token").write_text("open sesame\n")
    return folder


@contextmanager
def _broker(folder: Path) -> Iterator[None]:
    with reserved_ports(1) as (port,):
        arguments = (*OFFPEAK, "broker", "--listen", f"127.0.0.1:{port}", "--config", folder / "offpeak.toml")
        log = folder / "broker.log"
        with log.open("wb") as output, subprocess.Popen(arguments, stderr=output) as process:
            try:
                wait_until(lambda: (folder / "federation.json").exists(), what="the broker", log=log)
                yield
            finally:
                process.terminate()
