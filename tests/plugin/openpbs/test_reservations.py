"""A reservation of OpenPBS shows on its nodes long before it begins: only then are they reserved, and only its times
keep jobs from them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin

from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.pbs.commands import ctime_s
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.reservations import PbsReservation, parse_reservations
from offpeak.plugin.scheduler.job import Job
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, Pbs
from offpeak.sim_backend.pbs_standin.submission import date_time_s

DAY_S = 86_400
SETTINGS = PbsSettings(timeout_s=300)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standin(OPENPBS, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        yield running


def put_to_sleep(server: StandIn, *nodes: str) -> None:
    for node in nodes:
        mark = f"resources_available.offpeak_node = asleep.{int(time.time())}"
        server.run("qmgr", "-c", f"set node {node} {mark}, state += sleep")


def reserve(server: StandIn, begins_in_s: int, *options: str, lasts_s: int = 60) -> str:
    """Return the answer to a reservation."""
    at = time.strftime("%Y%m%d%H%M.%S", time.gmtime(time.time() + begins_in_s))
    return server.run("pbs_rsub", "-R", at, "-D", str(lasts_s), *options)


def submit(server: StandIn, nodes: int, *options: str) -> str:
    where = ("-l", f"select={nodes}:ncpus=8", "-l", "place=scatter:excl")
    return server.run("qsub", *where, *options, stdin="sleep 1000\n")


def job_of(scheduler: OpenPbsScheduler, name: str) -> Job:
    (job,) = (each for each in scheduler.view().jobs if each.job_id == name)
    return job


def test_nodes_are_used_and_woken_until_their_reservation_begins(server: StandIn) -> None:
    reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node2", "-l", "place=excl")
    put_to_sleep(server, "node1", "node2", "node3")
    scheduler = OpenPbsScheduler(SETTINGS)
    short = submit(server, 3, "-l", "walltime=01:00:00")
    view = scheduler.view()
    assert not any(node.reserved for node in view.nodes)
    assert [(each.nodes, each.maintenance) for each in view.reservations] == [(("node2",), False)]
    assert view.reservations[0].start_s == pytest.approx(view.at_s + DAY_S, abs=60)
    assert sorted(job_of(scheduler, short).host_names) == ["node1", "node2", "node3"]


def test_a_job_that_would_meet_a_reservation_waits_for_its_end(server: StandIn) -> None:
    reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node2", "-l", "place=excl")
    put_to_sleep(server, "node1", "node2", "node3")
    scheduler = OpenPbsScheduler(SETTINGS)
    unlimited, narrow = submit(server, 3), submit(server, 2)
    end_s = scheduler.view().reservations[0].end_s
    assert job_of(scheduler, unlimited).start_s == end_s
    # Until then others may use the other nodes.
    assert sorted(job_of(scheduler, narrow).host_names) == ["node1", "node3"]
    assert job_of(scheduler, narrow).start_s != end_s


def test_only_what_a_reservation_leaves_counts_for_a_job_that_lasts_until_then(server: StandIn) -> None:
    for node in ("node2", "node3"):
        server.run("qmgr", "-c", f"set node {node} state = offline")
    reserve(server, 3600, "-l", "select=1:ncpus=4:host=node1")
    put_to_sleep(server, "node1")
    scheduler = OpenPbsScheduler(SETTINGS)

    def is_woken_for(*options: str) -> bool:
        job = server.run("qsub", *options, stdin="sleep 1000\n")
        found = job_of(scheduler, job)
        server.run("qdel", job)
        return found.hosts == "node1" and found.start_s is not None and found.start_s < time.time() + 1800

    assert is_woken_for("-l", "select=1:ncpus=8", "-l", "walltime=00:30:00")
    assert not is_woken_for("-l", "select=1:ncpus=8", "-l", "walltime=02:00:00")
    assert is_woken_for("-l", "select=1:ncpus=4")


def test_a_start_after_a_reservation_is_not_known_if_a_job_ends_before(server: StandIn) -> None:
    reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node2", "-l", "place=excl")
    submit(server, 1, "-l", "walltime=00:30:00")
    assert job_of(OpenPbsScheduler(SETTINGS), submit(server, 3)).start_s is None


def test_a_reservation_that_runs_holds_its_nodes_until_its_end(server: StandIn) -> None:
    reserve(server, 0, "-l", "select=1:ncpus=4:host=node1", lasts_s=7200)
    scheduler = OpenPbsScheduler(SETTINGS)
    wide = submit(server, 3)
    view = scheduler.view()
    assert [node.reserved for node in view.nodes] == [True, False, False]
    assert job_of(scheduler, wide).start_s == view.reservations[0].end_s


def test_a_reservation_whose_times_cannot_be_read_leaves_its_nodes_alone(server: StandIn) -> None:
    reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node2")
    (server.programs / "pbs_rstat").unlink()
    scheduler = OpenPbsScheduler(SETTINGS)
    view = scheduler.view()
    assert [node.name for node in view.nodes if node.reserved] == ["node2"]
    assert view.reservations == ()
    assert "pbs_rstat: not found on PATH" in [
        each.what for each in check_contract(scheduler.traits().contract, ManagedSite())
    ]


def test_maintenance_is_known_by_its_name(server: StandIn) -> None:
    reserve(server, DAY_S, "--hosts", "node1", "node3")
    (found,) = OpenPbsScheduler(SETTINGS).view().reservations
    assert found.maintenance
    assert found.nodes == ("node1", "node3")


def test_a_sleeping_node_is_not_awaited_for_its_maintenance(server: StandIn) -> None:
    put_to_sleep(server, "node1", "node2")
    server.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
    names = [reserve(server, DAY_S, "--hosts", "node1").split()[0]]
    names += [reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node2").split()[0]]

    def begin(pbs: Pbs) -> None:
        for name in names:
            pbs.reservations[name] = replace(pbs.reservations[name], start_s=int(time.time()) - 5)

    server.do(begin)
    nodes = OpenPbsScheduler(SETTINGS).view().nodes
    assert [(node.reserved, node.is_awaited) for node in nodes] == [(True, False), (True, True), (False, False)]


RECORDED = b"""\
Resv ID: R2.head
Reserve_Name = Ab+c_-x
Reserve_Owner = root@head
reserve_state = RESV_DEGRADED
reserve_substate = 10
reserve_start = Sun Nov 29 23:46:00 2026
reserve_end = Sun Nov 29 23:47:00 2026
reserve_duration = 60
queue = R2
Resource_List.ncpus = 16
Resource_List.select = 2:ncpus=8
Resource_List.place = scatter
Resource_List.walltime = 00:01:00
resv_nodes = (n1:ncpus=8)+(n2:ncpus=4:mem=1kb+n3:ncpus=4)
Authorized_Users = root@head
ctime = Sat Nov 28 23:46:31 2026
Variable_List = PBS_O_HOST=head,PBS_TZID=Europe/Berlin
reserve_retry = Thu Jan 01 00:00:00 1970
reserve_rrule = FREQ=DAILY;COUNT=3
reserve_index = 1
reserve_count = 3
partition = pbs-default

"""
START, END = b"reserve_start = Sun Nov 29 23:46:00 2026\n", b"reserve_end = Sun Nov 29 23:47:00 2026\n"
"""What a real 23.06 printed."""


def test_a_recorded_reservation() -> None:
    known, unclear = parse_reservations(RECORDED + RECORDED.replace(b"R2", b"S3").replace(b"scatter", b"excl"))
    start_s = ctime_s("Sun Nov 29 23:46:00 2026")
    assert start_s == date_time_s("202611292346")
    assert known["R2.head"] == PbsReservation("R2.head", start_s, start_s + 60, {"n1": 8, "n2": 4, "n3": 4})
    assert known["S3.head"].cpus["n3"] >= 8
    assert unclear == ()


@pytest.mark.parametrize(
    "text",
    [
        RECORDED.replace(START, b""),
        RECORDED.replace(END, b"reserve_end = Sun Nov 29 23:47:00 20260\n"),
        RECORDED.replace(END, b"reserve_end = Sun Nov 29 23:47:00 " + b"9" * 30 + b"\n"),
        RECORDED.replace(END, b"reserve_end = never\n"),
        # It ends before it begins.
        RECORDED.replace(END, b"reserve_end = Mon Jan 01 00:00:00 1\n"),
        # A line of a user's text that looks like another begin, and one that looks like the whole reservation.
        RECORDED.replace(b"Europe/Berlin\n", b"Europe/Berlin\nreserve_start = Fri Nov 29 23:46:00 2126\n"),
        RECORDED.replace(b"Europe/Berlin\n", b"Europe/Berlin\n" + RECORDED.replace(b"2026", b"2126")),
    ],
)
def test_contradictory_times_are_not_clear(text: bytes) -> None:
    assert parse_reservations(text) == ({}, ("R2.head",))


@pytest.mark.parametrize(
    ("begins", "ends", "is_reserved"),
    [
        ("Mon Jan 01 00:00:00 1", "Fri Nov 29 23:47:00 2126", True),
        # The server still names one that has passed: it may know why.
        ("Sun Nov 29 23:46:00 2020", "Sun Nov 29 23:47:00 2020", True),
        ("Fri Nov 29 23:46:00 2126", "Fri Nov 29 23:47:00 2126", False),
    ],
)
def test_a_node_is_reserved_from_the_begin_on(server: StandIn, begins: str, ends: str, *, is_reserved: bool) -> None:
    far = reserve(server, DAY_S, "-l", "select=1:ncpus=8:host=node1").split()[0]
    reserve(server, 2 * DAY_S, "-l", "select=1:ncpus=8:host=node1")
    text = server.run("pbs_rstat", "-f", far)
    kept = [line for line in text.splitlines() if not line.startswith(("reserve_start", "reserve_end"))]
    other = server.run("pbs_rstat", "-f").replace(text, "")
    shown = "\n".join([*kept, f"reserve_start = {begins}", f"reserve_end = {ends}", "", other, ""])
    (server.programs / "pbs_rstat").write_text(f"#!/bin/sh\ncat <<'END'\n{shown}\nEND\n")
    view = OpenPbsScheduler(SETTINGS).view()
    assert [node.reserved for node in view.nodes] == [is_reserved, False, False]


def test_a_sleeping_node_is_booked_while_pbs_power_is_enabled(server: StandIn) -> None:
    put_to_sleep(server, "node1", "node2")
    two = ("-l", "select=2:ncpus=8", "-l", "place=scatter")
    assert reserve(server, DAY_S, *two).endswith("DENIED")
    server.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
    assert reserve(server, 300, *two).endswith("DENIED")
    assert reserve(server, DAY_S, *two).endswith("CONFIRMED")
