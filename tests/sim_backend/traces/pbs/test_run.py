"""What one E record says of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.sim_backend.traces.pbs.log import JobOwner, JobPlacement, PbsRun, run_of

pytestmark = pytest.mark.quick

TORQUE = (
    b"user=alice group=users account=aero jobname=cfd queue=batch ctime=1000 qtime=1010 etime=1020 start_count=1"
    b" start=1100 owner=alice@head exec_host=n001/0-3+n002/0-3 Resource_List.nodes=2:ppn=4"
    b" Resource_List.walltime=01:00:00 Resource_List.nodect=2 session=77 total_execution_slots=8 unique_node_count=2"
    b" end=1400 Exit_status=0 resources_used.cput=9 resources_used.walltime=00:04:50 resources_used.energy_used=600\n"
)
OPENPBS = (
    b'user=bob group=bob account="aero" project=_pbs_project_default jobname=md queue=workq ctime=1000 qtime=1000'
    b" etime=0 start=1100 exec_host=n001/0*4+n001/1*4 exec_vnode=(n001:ncpus=4)+(n001:ncpus=4) Resource_List.ncpus=8"
    b" Resource_List.walltime=2:30 session=1 end=1163 Exit_status=265 resources_used.walltime=00:00:48 run_count=1\r\n"
)


def read(attributes: bytes) -> PbsRun:
    run = run_of(b"1.head", attributes)
    assert run
    return run


def test_a_record_of_torque() -> None:
    who = JobOwner(b"alice", b"aero", b"batch", b"cfd")
    assert read(TORQUE) == PbsRun(b"1.head", 1020, 1100, 300, 3600, 600, JobPlacement(2, 8), who, b"nodes=2:ppn=4")


def test_a_record_of_openpbs() -> None:
    who = JobOwner(b"bob", b"aero", b"workq", b"md")
    assert read(OPENPBS) == PbsRun(b"1.head", 1000, 1100, 63, 150, 0, JobPlacement(1, 8), who, b"ncpus=8")


def test_torques_totals_agree_with_exec_host() -> None:
    without = TORQUE.replace(b"total_execution_slots=8 unique_node_count=2 ", b"")
    assert read(without) == read(TORQUE)


@pytest.mark.parametrize(
    ("requested", "places"),
    [
        (b"Resource_List.nodect=3 Resource_List.ncpus=24 ", JobPlacement(3, 24)),
        (b"Resource_List.procs=6 ", JobPlacement(0, 6)),
        (b"Resource_List.nodect=3 ", JobPlacement(3, 3)),
        (b"", JobPlacement(0, 0)),
    ],
)
def test_without_exec_host_the_request_counts(requested: bytes, places: JobPlacement) -> None:
    attributes = b"user=a group=b jobname=j queue=q ctime=1 qtime=1 etime=1 start=5 " + requested + b"session=1 end=9"
    assert read(attributes).places == places


def test_a_clock_set_back_leaves_the_wall_time_used() -> None:
    assert read(TORQUE.replace(b" end=1400", b" end=900")).runtime_s == 290
    without = TORQUE.replace(b" end=1400", b" end=900").replace(b"resources_used.walltime=00:04:50 ", b"")
    assert read(without).runtime_s == -1


@pytest.mark.parametrize("times", [b"start=0 ", b""])
def test_a_job_that_never_started(times: bytes) -> None:
    assert run_of(b"1.head", TORQUE.replace(b"start=1100 ", times)) is None


@pytest.mark.parametrize("spoilt", [b" end=", b" qtime=", b"1400 Exit"])
def test_missing_times_are_a_fault(spoilt: bytes) -> None:
    with pytest.raises(ValueError, match="without one of its times"):
        run_of(b"1.head", TORQUE.replace(spoilt, b" x"))


def test_numbers_no_machine_can_hold_are_a_fault() -> None:
    with pytest.raises(ValueError, match="without one of its times"):
        run_of(b"1.head", TORQUE.replace(b"end=1400", b"end=1" + b"0" * 40))


@given(jobname=st.binary().filter(lambda name: b"\n" not in name))
def test_no_job_name_can_forge_the_times(jobname: bytes) -> None:
    forged = jobname + b" queue=q ctime=1 qtime=1 etime=1 start=5 x end=9"
    for name in (jobname, forged):
        run = read(TORQUE.replace(b"=cfd", b"=" + name))
        assert run._replace(who=JobOwner()) == read(TORQUE)._replace(who=JobOwner())
        assert run.who == JobOwner(b"alice", b"aero", b"batch", name)


@given(st.integers(0, 999), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_wall_times(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    for text in (
        f"{days}:{hours:02}:{minutes:02}:{seconds:02}",
        f"{days * 24 + hours}:{minutes}:{seconds}",
        f"{total}",
    ):
        assert read(TORQUE.replace(b"01:00:00", text.encode())).requested_s == total
