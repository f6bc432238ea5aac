"""`offpeak study --on slurm`, `--on pbs` and `--on dask://` by an ordinary user, as docs/science/sweeps.md says.

Slurm and Dask are real. The stand-in of OpenPBS takes, places and ends jobs; a daemon beside it runs their scripts.
"""

import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from needed_programs import need
from pbs_standin import StandIn, standin
from slurm_fixtures import sleeping_slurm

from benchmarks.local_slurm.processes import (
    SEARCH_PATH,
    listens,
    reserved_ports,
    running,
    start_server,
    wait_until,
)
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.executor import QUIET_DASK
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, Pbs
from offpeak.sim_backend.scheduler.cluster import ON_NODES

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")]

USER = pwd.getpwnam("nobody")
PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
MEMORY_MIB = 16_384
# The documented partition; the documented account needs none, as nothing checks accounts here.
PARTITION = "PartitionName=compute Nodes=ALL Default=YES MaxTime=1-0 State=UP\n"
STUDY_S = 900.0
ALONE_S = 90.0
"""The page says a minute, for workers whose offpeak was killed."""


@dataclass(frozen=True)
class OrdinaryUser:
    """An account with a home folder on a disk that all nodes share, and in it a virtualenv with offpeak."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a login sets."""
        path = f"{self.home}/venv/bin{os.pathsep}{SEARCH_PATH}"
        return {"HOME": str(self.home), "TMPDIR": str(self.home), "USER": USER.pw_name, "PATH": path, "LC_ALL": "C"}

    def command(self, line: str) -> tuple[str, ...]:
        """Return a line of a shell as this user's."""
        return (
            *("setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"),
            *("env", "--chdir", str(self.home), "bash", "-c", line),
        )

    def run(self, line: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        """Run a line to its end."""
        given = {**self.environment, **environment}
        return subprocess.run(
            self.command(line), env=given, capture_output=True, text=True, check=False, timeout=STUDY_S
        )

    def write(self, name: str, text: str) -> None:
        """Write a file of the user's."""
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for each in (file, *(parent for parent in file.parents if self.home in parent.parents)):
            os.chown(each, USER.pw_uid, USER.pw_gid)


@pytest.fixture(scope="module")
def user(repository: Path) -> Iterator[OrdinaryUser]:
    """The virtualenv uses the packages of this one, by a Python that every user may run."""
    need([PYTHON, "setpriv"], packages=f"{Path(PYTHON).name}-venv util-linux")
    with tempfile.TemporaryDirectory(prefix="offpeak-home-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o755)
        os.chown(home, USER.pw_uid, USER.pw_gid)
        made = OrdinaryUser(home)
        subprocess.run((PYTHON, "-m", "venv", "--without-pip", home / "venv"), check=True)
        packages = next((home / "venv" / "lib").glob("python*/site-packages"))
        ours = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "shared.pth").write_text("\n".join([str(repository), str(repository / "studies"), *ours]))
        for name, module in {"offpeak": "offpeak.ui.command", "dask": "dask.__main__"}.items():
            program = f"#!{home}/venv/bin/python\nfrom {module} import main\nif __name__ == '__main__':\n    main()\n"
            made.write(f"venv/bin/{name}", program)
            (home / "venv/bin" / name).chmod(0o755)
        done = made.run("offpeak --version", {})
        if done.returncode:
            pytest.skip(f"{USER.pw_name} cannot read this repository: {done.stderr.strip()[-200:]}")
        yield made


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "science" / "sweeps.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def documented(page: str) -> str:
    """The command of the page."""
    (command,) = re.findall(r"^(offpeak study \S+ --on slurm:8 .*)$", page, re.MULTILINE)
    return str(command)


def documented_problem(page: str, words: str) -> str:
    """Return the expression of the message with these words in the page's table, with any numbers and any reason."""
    (message,) = re.findall(rf"^\| `([^`]*{words}[^`]*)` \|", page, re.MULTILINE)
    return re.sub(r"\d+", r"\\d+", re.escape(message).replace("…", ".*").replace("Priority", r"\S+"))


@pytest.fixture(scope="module")
def expected(user: OrdinaryUser, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of the same grid on this machine; the grid is that of the page, with less to replay."""
    grid = (repository / "docs" / "examples" / "grid.toml").read_text(encoding="utf-8")
    shorter = {
        "weeks = [3, 29]": "weeks = [3]",
        '"server", "sketch"': '"server"',
        '"always-on", "timeout:10min"': '"always-on"',
        '"sim_backend/': f'"{repository}/sim_backend/',
    }
    for old, new in shorter.items():
        assert old in grid
        grid = grid.replace(old, new)
    user.write("grid.toml", grid)
    out = tmp_path_factory.mktemp("here")
    command = (sys.executable, "-c", "from offpeak.ui.command import main; main()", "study", user.home / "grid.toml")
    subprocess.run((*command, "--out", out), check=True, capture_output=True)
    return (out / "results.jsonl").read_bytes()


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with sleeping_slurm("priority/basic", nodes=2, memory_mib=MEMORY_MIB, settings_for=lambda _: PARTITION) as cluster:
        yield cluster


def shown(cluster: SlurmCluster, field: str) -> list[str]:
    """Return a field of all jobs, also of those that have ended."""
    return re.findall(rf"\b{field}=(\S+)", cluster.run("scontrol", "show", "jobs"))


def test_the_documented_command_and_settings_run_a_study_on_slurm(
    user: OrdinaryUser, slurm: SlurmCluster, page: str, documented: str, expected: bytes, tmp_path: Path
) -> None:
    """A partition that is not there is refused first, and jobs wait while it is down."""
    (settings,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    # The only network that the nodes of this machine share.
    settings = settings.replace("interface: ib0", "interface: lo")
    environment, log = {**user.environment, "SLURM_CONF": str(slurm.conf)}, tmp_path / "study.log"
    try:
        user.write(".config/dask/jobqueue.yaml", settings.replace("queue: compute", "queue: absent"))
        refused = user.run(documented, environment)
        assert refused.returncode == 1
        assert re.search(documented_problem(page, "no job can be submitted"), refused.stderr), refused.stderr
        user.write(".config/dask/jobqueue.yaml", settings)
        slurm.run("scontrol", "update", "partitionname=compute", "state=down")
        study = start_server(user.command(f"exec {documented}"), log, environment)
        waits = documented_problem(page, "has no worker")
        wait_until(lambda: re.search(waits, log.read_text()) is not None, what=waits, log=log)
        slurm.run("scontrol", "update", "partitionname=compute", "state=up")
        status = study.wait(STUDY_S)
    finally:
        (user.home / ".config/dask/jobqueue.yaml").unlink()
    assert status == 0, log.read_text()
    assert log.read_text().endswith("written to grid: study.html, study.md, tables as CSV, grid.parquet\n")
    assert (user.home / "grid" / "results.jsonl").read_bytes() == expected
    assert 1 <= len(shown(slurm, "JobId")) <= 8
    assert set(shown(slurm, "UserId")) == {f"{USER.pw_name}({USER.pw_uid})"}
    assert set(shown(slurm, "Partition")) == {"compute"}
    assert set(shown(slurm, "Account")) == {"physics"}
    assert set(shown(slurm, "NumCPUs")) == {"4"}
    assert set(shown(slurm, "TimeLimit")) == {"02:00:00"}
    wait_until(lambda: slurm.run("squeue", "--noheader") == "", what="the end of all jobs")
    workers = user.home / ".cache" / "offpeak" / "workers"
    assert (workers.stat().st_uid, workers.stat().st_mode & 0o777) == (USER.pw_uid, 0o700)
    assert all(output.name.startswith("dask-worker-") for output in workers.iterdir())
    assert list(workers.iterdir())


def test_a_killed_command_leaves_no_job_and_the_same_command_continues(
    user: OrdinaryUser, slurm: SlurmCluster, documented: str, expected: bytes, tmp_path: Path
) -> None:
    """Without a file of settings: the default partition and jobs of one processor."""
    again = documented.replace("--out grid", "--out killed")
    environment = {**user.environment, "SLURM_CONF": str(slurm.conf)}

    def killed_by(number: signal.Signals) -> None:
        process = start_server(user.command(f"exec {again}"), tmp_path / "study.log", environment)
        wait_until(lambda: "RUNNING" in shown(slurm, "JobState"), what="a worker in a job", log=tmp_path / "study.log")
        process.send_signal(number)
        assert process.wait(300) != 0
        wait_until(lambda: slurm.run("squeue", "--noheader") == "", what="the end of all jobs", seconds=ALONE_S)

    killed_by(signal.SIGKILL)
    killed_by(signal.SIGTERM)
    done = user.run(again, environment)
    assert done.returncode == 0, done.stderr
    assert (user.home / "killed" / "results.jsonl").read_bytes() == expected
    assert set(shown(slurm, "NumCPUs")) == {"1"}
    assert set(shown(slurm, "TimeLimit")) == {"00:30:00"}


def test_the_documented_dask_runs_a_study(user: OrdinaryUser, page: str, expected: bytes, tmp_path: Path) -> None:
    (block,) = re.findall(r"```text\n(dask scheduler .*?)```", page, re.DOTALL)
    quiet = dict(re.findall(r"^export (\w+)=(\w+)$", page, re.MULTILINE))
    assert quiet == QUIET_DASK
    log = tmp_path / "dask.log"
    with reserved_ports(1) as (port,), ExitStack() as servers:
        block = block.replace("HEAD", "127.0.0.1").replace("8786", str(port)).replace("--nworkers 4", "--nworkers 2")
        scheduler, worker, command = block.splitlines()
        start = [(scheduler, lambda: listens(port)), (worker, lambda: "Registered to" in log.read_text())]
        for line, ready in start:
            servers.enter_context(
                running(*user.command(f"exec {line}"), log=log, ready=ready, environment=user.environment | quiet)
            )
        done = user.run(f"{command} --out dask", {})
    assert done.returncode == 0, done.stderr
    assert (user.home / "dask" / "results.jsonl").read_bytes() == expected


QSUB = """\
#!{python}
# Reads the options in the script as PBS's own qsub does, and keeps the script of each job for the node's daemon.
import pathlib, shlex, subprocess, sys
text = pathlib.Path(sys.argv[-1]).read_text()
options = [word for line in text.splitlines() if line.startswith("#PBS ") for word in shlex.split(line[5:])]
done = subprocess.run(["{programs}/qsub", *options, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
if done.returncode == 0:
    pathlib.Path("{scripts}", done.stdout.partition(".")[0]).write_text(text)
sys.stdout.write(done.stdout)
sys.exit(done.returncode)
"""


@dataclass(frozen=True)
class PbsWithNodes:
    """The stand-in with a daemon of its nodes: `programs` are its commands, `scripts` the submitted ones by number."""

    server: StandIn
    programs: Path
    scripts: Path

    def jobs(self) -> dict[int, JobState]:
        """Return the state of each job."""
        return self.server.do(lambda pbs: {job.number: job.state for job in pbs.cluster.jobs.values()})

    def end(self, number: int) -> None:
        """Tell the server that a job's script has ended."""

        def ended(pbs: Pbs) -> None:
            job = pbs.cluster.jobs[number, None]
            if job.state in ON_NODES:
                pbs.cluster.end(job, time.time())

        self.server.do(ended)


@pytest.fixture
def pbs(user: OrdinaryUser) -> Iterator[PbsWithNodes]:
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-pbs-") as name,
        standin(OPENPBS, Path(name)) as server,
        ExitStack() as running,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        for program in server.programs.iterdir():
            # The Python of the tests may be closed to other users.
            program.write_text(re.sub(r"\A#!\S+", f"#!{PYTHON}", program.read_text()))
        programs, scripts = folder / "user", folder / "scripts"
        for each in (programs, scripts):
            each.mkdir()
        os.chown(scripts, USER.pw_uid, USER.pw_gid)
        for program in server.programs.iterdir():
            (programs / program.name).symlink_to(program)
        (programs / "qsub").unlink()
        (programs / "qsub").write_text(QSUB.format(python=PYTHON, programs=server.programs, scripts=scripts))
        (programs / "qsub").chmod(0o755)
        made = PbsWithNodes(server, programs, scripts)
        running.enter_context(node_daemon(made, user))
        yield made


@contextmanager
def node_daemon(pbs: PbsWithNodes, user: OrdinaryUser) -> Iterator[None]:
    """Run the scripts of jobs that the server starts, and end those of jobs that it ends."""
    stopped, processes = threading.Event(), dict[int, "subprocess.Popen[bytes]"]()

    def signal_all(number: int, sent: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(processes[number].pid, sent)

    def serve() -> None:
        while not stopped.wait(0.1):
            for number, state in pbs.jobs().items():
                script = pbs.scripts / str(number)
                if number not in processes and state is JobState.RUNNING and script.exists():
                    environment = {**user.environment, "PBS_JOBID": f"{number}.head"}
                    line = f"exec bash {shlex.quote(str(script))}"
                    processes[number] = start_server(user.command(line), pbs.scripts.parent / "jobs.log", environment)
                elif number in processes and processes[number].poll() is not None:
                    pbs.end(number)
                elif number in processes and state is JobState.ENDED:
                    signal_all(number, signal.SIGTERM)

    # start_server ties what it starts to the thread that starts it.
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        for number, process in processes.items():
            signal_all(number, signal.SIGKILL)
            process.wait()


def test_workers_that_qsub_submits_complete_a_study(
    user: OrdinaryUser, pbs: PbsWithNodes, documented: str, expected: bytes
) -> None:
    command = documented.replace("--on slurm:8 --out grid", "--on pbs:8 --out pbs")
    done = user.run(command, {"PATH": f"{pbs.programs}{os.pathsep}{user.environment['PATH']}"})
    assert done.returncode == 0, (done.stderr, (pbs.scripts.parent / "jobs.log").read_text())
    assert (user.home / "pbs" / "results.jsonl").read_bytes() == expected
    jobs = pbs.server.do(lambda pbs: list(pbs.cluster.jobs.values()))
    assert 1 <= len(jobs) <= 8
    exports = {f"export {name}={value}" for name, value in QUIET_DASK.items()}
    assert all(exports <= {*script.read_text().splitlines()} for script in pbs.scripts.iterdir())
    assert {(job.user, job.wants["select"], job.limit_s) for job in jobs} == {
        (USER.pw_name, "1:ncpus=1:mem=2048MB", 1800)
    }
    wait_until(lambda: set(pbs.jobs().values()) == {JobState.ENDED}, what="the end of all jobs")


def test_what_qsub_refuses_ends_the_command(user: OrdinaryUser, pbs: PbsWithNodes, documented: str) -> None:
    (pbs.programs / "qsub").write_text('#!/bin/sh\necho "qsub: Unknown queue" >&2\nexit 170\n')
    command = documented.replace("--on slurm:8 --out grid", "--on pbs:8 --out refused")
    done = user.run(command, {"PATH": f"{pbs.programs}{os.pathsep}{user.environment['PATH']}"})
    assert done.returncode == 1
    assert "offpeak: error: pbs:8: no job can be submitted: qsub: Unknown queue" in done.stderr
    assert pbs.jobs() == {}
