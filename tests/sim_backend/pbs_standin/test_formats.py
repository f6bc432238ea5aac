"""The stand-in prints as real servers do: byte for byte where a recording can be printed anew, else field for field."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pbs_standin import StandIn, standin

from offpeak.plugin.pbs.commands import ctime_s
from offpeak.sim_backend.pbs_standin.output import json_text
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

pytestmark = pytest.mark.quick

ANSWERS = Path(__file__).parents[4] / "shared" / "data" / "captures" / "openpbs"
# Its environment has bytes that are not UTF-8 and numbers that no reader gives back as they were.
PLAIN = sorted(file.name for file in ANSWERS.glob("*.json") if "weird" not in file.name)


@pytest.mark.parametrize("name", PLAIN)
def test_json_byte_for_byte(name: str, shared: Path) -> None:
    text = (shared / "data" / "captures" / "openpbs" / name).read_text()
    # An empty object is printed on two lines there.
    assert json_text(json.loads(text)).replace("{\n\n", "{\n") == text.rstrip("\n")


def elements(text: str, tag: str) -> list[str]:
    """Return the names of what is below the first element of that name, in order."""
    inside = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    inside = re.sub(r"<(resources_used|Resource_List)>.*?</\1>", r"<\1></\1>", inside)
    return re.findall(r"<([A-Za-z_]+)>", inside)


def is_in_order(names: list[str], real: list[str]) -> bool:
    known = [name for name in names if name in real]
    return known == sorted(known, key=real.index)


def with_job(running: StandIn, *options: str) -> str:
    return running.run("qsub", "-N", "cfd", *options, user="alice", stdin="sleep 100\n")


def test_xml_field_for_field(tmp_path: Path, shared: Path) -> None:
    captures = shared / "data" / "captures" / "torque"
    with standin(TORQUE, tmp_path) as running:
        with_job(running, "-l", "nodes=1:ppn=2,walltime=01:00:00", "-A", "proj")
        jobs, nodes = running.run("qstat", "-x"), running.run("pbsnodes", "-x")
    assert jobs.startswith('<?xml version="1.0"?>\n<Data><Job><Job_Id>1.head</Job_Id><Job_Name>cfd</Job_Name>')
    real = elements(
        (captures / "A_qstat_x.xml").read_text().partition("31.head")[2].replace("</Job_Id>", "<Job>", 1), "Job"
    )
    assert is_in_order(elements(jobs, "Job")[1:], real)
    assert is_in_order(elements(nodes, "Node"), elements((captures / "A_pbsnodes_x.xml").read_text(), "Node"))
    assert "<exec_host>node1/0-1</exec_host>" in jobs
    assert "<jobs>0-1/1.head</jobs>" in nodes


def test_keys_of_json_stand_in_the_order_of_a_real_server(tmp_path: Path, shared: Path) -> None:
    real = json.loads((shared / "data" / "captures" / "openpbs" / "A_qstat_xtf.json").read_text())["Jobs"]["4.head"]
    with standin(OPENPBS, tmp_path) as running:
        job = with_job(running, "-l", "select=1:ncpus=2", "-l", "walltime=01:00:00")
        reply = json.loads(running.run("qstat", "-f", "-F", "json"))["Jobs"][job]
    assert is_in_order(list(reply), list(real))
    assert (reply["exec_vnode"], reply["job_state"]) == ("(node1:ncpus=2)", "R")


def test_the_first_job_that_waits_has_an_estimate_where_the_server_counts_on_sleeping_nodes(
    tmp_path: Path, shared: Path
) -> None:
    recorded = shared / "data" / "captures" / "openpbs" / "D2_sleep_strict_qstat_f.json"
    real = json.loads(recorded.read_text())["Jobs"]["80.head"]
    with standin(OPENPBS, tmp_path) as running:
        filler = with_job(running, "-l", "select=1:ncpus=8", "-l", "walltime=00:05:00")
        running.run("qmgr", "-c", "set node node2 state = sleep")
        running.run("qmgr", "-c", "set node node3 state = sleep")
        wide, next_one = (with_job(running, "-l", f"select={size}:ncpus=8", "-l", "place=scatter") for size in (3, 2))
        assert "estimated" not in jobs_of(running)[wide]
        running.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
        queried_s, reply = time.time(), jobs_of(running)
        assert is_in_order(list(reply[wide]), list(real))
        assert reply[wide]["topjob"] == "True"
        estimated = reply[wide]["estimated"]
        assert list(estimated) == list(real["estimated"])
        assert sorted(estimated["exec_vnode"].split("+")) == [f"(node{number}:ncpus=8)" for number in (1, 2, 3)]
        assert ctime_s(estimated["start_time"]) == pytest.approx(queried_s + 600, abs=5)
        assert "estimated" not in reply[next_one]
        # A node that is up is had as soon as the limits of its jobs are reached.
        running.run("qdel", wide)
        running.run("qmgr", "-c", "set node node2 state -= sleep")
        reply = jobs_of(running)
    begun_s = ctime_s(reply[filler]["stime"])
    assert begun_s is not None
    assert ctime_s(reply[next_one]["estimated"]["start_time"]) == begun_s + 300


def jobs_of(running: StandIn) -> dict[str, Any]:
    return json.loads(running.run("qstat", "-f", "-F", "json"))["Jobs"]


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [(TORQUE, "Unknown Job Id Error 99.head", 153), (OPENPBS, "Unknown Job Id 99.head", 153)],
)
def test_errors_are_those_of_real_servers(kind: str, message: str, code: int, tmp_path: Path) -> None:
    with standin(kind, tmp_path) as running, pytest.raises(subprocess.CalledProcessError) as caught:
        running.run("qstat", "-f", "99.head")
    assert (caught.value.stderr, caught.value.returncode) == (f"qstat: {message}\n", code)
