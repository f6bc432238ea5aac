"""Pages whose commands are typed into one terminal as they stand: what is shown is what is printed."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from needed_programs import need
from shown_output import pattern
from zygote import Zygote

STEP = re.compile(r"^```sh\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LONGEST_S = 900.0
MARK = "=== end of a step ==="


def test_the_week_of_shadow_mode(repository: Path, tmp_path: Path, zygote: Zygote) -> None:
    page = (repository / "docs" / "tutorial" / "week-of-shadow.md").read_text(encoding="utf-8")
    assert len(follow(page, tmp_path, zygote)) > 8


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use the port of IPMI")
@pytest.mark.parametrize(("name", "number", "steps"), [("how-to/virtual-hardware", 140, 4), ("reference/pbs", 142, 1)])
def test_virtual_hardware(name: str, number: int, steps: int, repository: Path, tmp_path: Path, zygote: Zygote) -> None:
    """The first command runs in a terminal of its own, with addresses that no other test has."""
    need(["ipmitool", "snmpget", "snmpbulkwalk"], packages="ipmitool snmp")
    page = (repository / "docs" / f"{name}.md").read_text(encoding="utf-8")
    page = page.replace("127.0.40.1", f"127.0.{number}.1").replace("127.0.41.1", f"127.0.{number + 1}.1")
    # Without a scheduler this command fails, as the page says.
    page = re.sub(r"^(offpeak check .*)$", r"\1 || true", page, flags=re.MULTILINE)
    place = f"--bmc-address 127.0.{number}.1 --pdu-address 127.0.{number + 1}.1"
    page = re.sub(
        r"^(offpeak virtual [^#\n]*).*$",
        rf"\1 {place} > room.log & ROOM=$!\ntrap 'kill $ROOM' EXIT\n"
        "until grep -q Ctrl-C room.log; do kill -0 $ROOM; sleep 0.1; done",
        page,
        flags=re.MULTILINE,
    )
    printed = follow(page, tmp_path, zygote)
    assert len(printed) == steps
    if name.endswith("pbs"):
        assert re.search(r"^1\.\S+ +test .* R ", printed[0], re.MULTILINE)
    else:
        assert printed[1].startswith("Chassis Power is on\nChassis Power Control: Soft\n")
        assert printed[2].count("INTEGER: ") == 25
        assert [line.split()[0] for line in printed[3].splitlines() if line.startswith("n16 ")] == ["n16"]


def follow(page: str, tmp_path: Path, zygote: Zygote) -> list[str]:
    """Type the commands of the page; return what each block printed."""
    steps = STEP.findall(page)
    script = "".join(f"{typed}echo '{MARK}'\n" for typed, _ in steps)
    path = os.pathsep.join([str(zygote.command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "OFFPEAK_CONFIG"}
    # A session of its own: whatever it started ends with it.
    terminal = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environment | {"PATH": path, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaints = terminal.communicate(timeout=LONGEST_S)
    finally:
        _end(terminal.pid)
    parts = printed.split(f"{MARK}\n")
    assert (terminal.returncode, len(parts)) == (0, len(steps) + 1), f"{printed}\n{complaints}"
    for (typed, shown), reply in zip(steps, parts, strict=False):
        if shown:
            assert re.fullmatch(pattern(shown), reply), f"{typed}\n{reply}"
    return parts[:-1]


def _end(session: int) -> None:
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return
