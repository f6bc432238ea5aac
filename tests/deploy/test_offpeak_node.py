"""The forced command with any input that a key may send, in each shell that may be a node's /bin/sh."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from node_tree import SCRIPT, node_tree, write_tree

SHELLS = [shell for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]
REFUSAL = (
    "offpeak-node: this key may only ask: probe, standby SECONDS [STATE], meters, caps, cap DEVICE WATTS SECONDS,"
    " uncap DEVICE\n"
)

REFUSED = [
    "",
    " ",
    "sh",
    "probe ",
    " probe",
    "Probe",
    "probe; touch {mark}",
    "probe\ntouch {mark}",
    "probe --root /",
    "--root / probe",
    "meters > {mark}",
    "standby",
    "standby ",
    "standby  60",
    "standby 60 60",
    "standby 60; touch {mark}",
    "standby 60\ntouch {mark}",
    "standby\n60",
    "standby $(touch {mark})",
    "standby `touch {mark}`",
    "standby 0",
    "standby 59",
    "standby 060",
    "standby 0x60",
    "standby 604801",
    "standby -60",
    "standby +60",
    "standby 6e1",
    "standby a[$(touch {mark})]",
    "standby 99999999999999999999",
    "standby *",
    "standby ٦٠٠",
    "standby " + "6" * 100_000,
    "standby 60 ",
    "standby 60 mem",
    "standby 60 *",
    "standby 60 deep s2idle",
    "standby 60 shallow\n",
    "standby 60 shallow; touch {mark}",
    "standby shallow",
    "standby shallow 60",
    "governor powersave",
    "cap",
    "cap cpu",
    "cap cpu 100",
    "cap cpu 100 9",
    "cap cpu 100 86401",
    "cap cpu 0 60",
    "cap cpu 100W 60",
    "cap cpu -100 60",
    "cap gpu 100 60 1",
    "cap mem 100 60",
    "cap cpu 100 60; touch {mark}",
    "cap cpu 100 $(touch {mark})",
    "cap cpu 100\n60",
    "cap cpu 100 60\ntouch {mark}",
    "uncap",
    "uncap mem",
    "uncap cpu gpu",
    "uncap cpu\n",
    "--expire cpu 1.2",
    "expire cpu 1.2",
    "/bin/sh -c 'touch {mark}'",
    "\x1b]0;title\x07",
    "%n%s%d",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    write_tree(root, node_tree(root))
    return root


def ask(shell: list[str], root: Path, request: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    requested = {} if request is None else {"SSH_ORIGINAL_COMMAND": request}
    return subprocess.run(
        [*shell, SCRIPT, "--root", root],
        env={"PATH": os.environ["PATH"], **requested, **environment},
        cwd=root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


def test_any_other_request_is_refused_in_one_line_and_leaves_no_trace(
    shell: list[str], root: Path, tmp_path: Path
) -> None:
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for request in REFUSED:
        done = ask(shell, root, request.replace("{mark}", str(tmp_path / "mark")))
        assert (done.returncode, done.stdout, done.stderr) == (2, "", REFUSAL), request[:60]
    assert ask(shell, root, None).stderr == REFUSAL
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


def test_the_environment_of_who_logs_in_changes_nothing(shell: list[str], root: Path, tmp_path: Path) -> None:
    programs = ("sed", "grep", "head", "rtcwake", "ethtool", "sleep")
    write_tree(tmp_path / "bin", dict.fromkeys(programs, f"#!/bin/sh\ntouch {tmp_path}/mark\n"))
    (tmp_path / "env").write_text(f"touch {tmp_path}/mark\n")
    environment = {"PATH": f"{tmp_path}/bin", "ENV": f"{tmp_path}/env", "BASH_ENV": f"{tmp_path}/env", "IFS": "0=_"}
    reported = ask([shutil.which(shell[0]) or "", *shell[1:]], root, "probe", **environment, LC_ALL="tr_TR.UTF-8")
    assert "power_states=freeze mem disk\n" in reported.stdout
    assert "wake_on_lan=eth0:g" in reported.stdout
    assert not (tmp_path / "mark").exists()


def test_counters_and_sensors_are_reported(shell: list[str], root: Path) -> None:
    assert ask(shell, root, "meters").stdout.splitlines()[1:] == [
        "rapl\tintel-rapl:0\tpackage-0\t262143328000\t262143328850",
        "hwmon\thwmon1\tpower1_average\tpower_meter\t\t212000000",
    ]


@pytest.mark.parametrize(
    ("system", "manager", "scheduled", "goes_down"),
    [
        ("running", "b false", "", "no"),
        ("degraded", "b false", "", "no"),
        # An inhibitor delays the shutdown, or `shutdown +5`; later it is under way.
        ("running", "b true", "", "yes"),
        ("running", "b false", "poweroff", "yes"),
        ("stopping", "", "", "yes"),
        ("running", "", "", ""),
        ("offline", "b false", "", ""),
    ],
)
def test_a_node_says_whether_it_is_about_to_go_down(
    root: Path, system: str, manager: str, scheduled: str, goes_down: str
) -> None:
    cases = f'*USec) echo "t 1800000000" ;; Sched*) echo \'(st) "{scheduled}" 0\' ;; *) echo "{manager}" ;;'
    told = f"case $5 in {cases} esac" if manager else "exit 1"
    programs = {"usr/bin/systemctl": f"echo {system}", "usr/bin/busctl": told, "usr/bin/timeout": 'shift; "$@"'}
    write_tree(root, {name: f"#!/bin/sh\n{text}\n" for name, text in programs.items()})
    reported = dict(line.split("=", 1) for line in ask(["/bin/sh"], root, "probe").stdout.splitlines())
    assert (reported["goes_down"], reported["inhibit_delay_s"]) == (goes_down, "1800" if manager else "")


def test_a_job_keeps_a_node_awake(shell: list[str], root: Path) -> None:
    write_tree(root, {"proc/88/environ": "HOME=/\0PBS_JOBID=5.head\0"})
    done = ask(shell, root, "standby 600")
    assert (done.returncode, done.stderr) == (4, "offpeak-node: process 88 belongs to a job\n")
    assert not (root / "rtcwake.log").exists()


@pytest.mark.parametrize(
    ("cmdline", "job"),
    [("slurmstepd: [12.batch]\0", True), ("/usr/sbin/slurmstepd\0infinity\0", False), (None, True)],
)
def test_the_stepd_that_only_holds_the_scope_of_slurmd_is_no_job(
    shell: list[str], root: Path, cmdline: str | None, job: bool
) -> None:
    write_tree(root, {"proc/88/comm": "slurmstepd\n", "proc/88/environ": "HOME=/\0"})
    if cmdline is not None:
        write_tree(root, {"proc/88/cmdline": cmdline})
    done = ask(shell, root, "standby 600")
    assert done.returncode == (4 if job else 0)
    assert done.stderr == ("offpeak-node: process 88 belongs to a job\n" if job else "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to another user")
def test_root_writes_into_no_folder_of_another_user(shell: list[str], root: Path, tmp_path: Path) -> None:
    """On a head node that is also a managed one, the agent's user could have root write wherever its links lead."""
    own, elsewhere = root / "run/offpeak-node", tmp_path / "elsewhere"
    for folder in (own.parent, elsewhere):
        folder.mkdir()
    own.symlink_to(elsewhere)
    refused = (1, "offpeak-node: /run/offpeak-node is not a folder of its own\n")
    done = ask(shell, root, "uncap cpu")
    assert (done.returncode, done.stderr, list(elsewhere.iterdir())) == (*refused, [])
    own.unlink()
    own.mkdir()
    os.chown(own, 65534, 65534)
    done = ask(shell, root, "uncap cpu")
    assert (done.returncode, done.stderr, list(own.iterdir())) == (*refused, [])
