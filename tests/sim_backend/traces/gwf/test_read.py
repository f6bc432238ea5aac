"""The Grid Workload Format: what the lines mean, what is refused and how. The samples follow the archive's files."""

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.sim_backend.traces.gwf import gwf_trace, looks_like_gwf

pytestmark = pytest.mark.quick

SUBMIT_S = 1_136_070_024
HEADER = "# 1  JobID\t\tcounter\n# 2  SubmitTime\t\tin seconds\n#\n# (fields contain -1 if not available)\n"


def line(
    job: object = 1,
    *,
    submit: object = SUBMIT_S,
    wait: object = 30,
    run: object = 60,
    used: object = 8,
    requested: object = 8,
    estimate: object = 600,
    who: str = "U12 G3 X7 Q0",
    between: str = "\t",
) -> str:
    fields = f"{job} {submit} {wait} {run} {used} 55.5 98652 {requested} {estimate} -1 1 {who} -1 S1 S2 UNITARY"
    return (fields + " -1" * 10).replace(" ", between) + "\n"


def read(*lines: str, lenient: bool = False) -> Trace:
    return gwf_trace(LongText("".join(lines).encode()), "das2.gwf", lenient=lenient, zone=ZoneInfo("Europe/Amsterdam"))


def refused(*lines: str, lenient: bool = False) -> str:
    with pytest.raises(BadTrace) as caught:
        read(*lines, lenient=lenient)
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("between", ["\t", " ", " \t "])
def test_a_line_becomes_a_job(between: str) -> None:
    trace = read(HEADER, line(between=between))
    jobs = trace.jobs
    assert (jobs.job_id[0], jobs.submit_s[0], jobs.logged_start_s[0]) == (1, SUBMIT_S, SUBMIT_S + 30)
    assert (jobs.runtime_s[0], jobs.estimate_s[0], jobs.size[0]) == (60, 600, 8)
    assert (trace.name, trace.unix_start_s, trace.time_zone) == ("das2.gwf", 0, "Europe/Amsterdam")
    assert (trace.names.user, trace.names.group, trace.names.application, trace.names.queue) == (
        ("U12",),
        ("G3",),
        ("X7",),
        ("Q0",),
    )
    assert trace.notes == ("counted in processors: the log does not say on how many nodes the jobs ran",)


def test_names_have_codes_and_unknown_ones_are_minus_one() -> None:
    trace = read(line(1, who="U12 -1 -1 -1"), line(2, who="-1 1 -1 -1"), line(3, who="U7 1 -1 -1"))
    assert [trace.names.user_text(user) for user in trace.jobs.user.tolist()] == ["U12", "-1", "U7"]
    assert (trace.jobs.group.tolist(), trace.names.group) == ([-1, 0, 0], ("1",))
    assert (trace.jobs.application.tolist(), trace.names.application) == ([-1, -1, -1], ())


@given(users=st.lists(st.from_regex(r"[!-~ü]{1,6}", fullmatch=True), min_size=1, max_size=30))
def test_every_job_keeps_its_user(users: list[str]) -> None:
    trace = read(*(line(number, who=f"{user} -1 -1 -1") for number, user in enumerate(users)))
    assert [trace.names.user_text(user) for user in trace.jobs.user.tolist()] == users


def test_names_over_several_blocks_of_the_file() -> None:
    trace = read(*(line(number, who=f"U{number % 5000} G{number % 3} -1 -1") for number in range(20_000)))
    assert trace.names.user_text(int(trace.jobs.user[19_999])) == "U4999"
    assert len(trace.names.user) == 5_000


def test_used_processors_stand_in_for_requested_ones_and_the_run_time_for_the_estimate() -> None:
    trace = read(line(1, used=4, requested=-1, estimate=-1), line(2, wait=-1))
    assert trace.jobs.size.tolist() == [4, 8]
    assert trace.jobs.estimate_s.tolist() == [60, 600]
    assert trace.jobs.logged_start_s.tolist() == [SUBMIT_S + 30, -1]
    assert trace.notes[-1] == "1 job without a time limit: the run time is used"


def test_jobs_keep_the_processors_that_they_used() -> None:
    trace = read(line(1, used=4), line(2))
    assert (trace.jobs.size.tolist(), trace.jobs.as_logged().size.tolist()) == ([8, 8], [4, 8])
    assert trace.notes[-1].startswith("1 job used more or fewer processors than asked")


def test_jobs_that_never_ran_are_set_aside_with_the_reason() -> None:
    trace = read(line(1, run=-1, requested=-1, used=-1), line(2), line(3, requested=-1, used=0), line(4, run=0))
    assert trace.jobs.job_id.tolist() == [2, 4]
    assert trace.rejected == (RejectedJobs("run time unknown (-1)", (1,)), RejectedJobs("no processors", (3,)))


def test_submit_times_that_count_from_the_first_job_have_no_date() -> None:
    assert read(line(submit=SUBMIT_S), line(submit=0)).unix_start_s is None
    assert read(line(submit=631_152_000)).unix_start_s == 0
    assert gwf_trace(LongText(line().encode()), "log", lenient=False, zone=UTC).time_zone == "UTC"


def test_jobs_come_sorted_and_rounded_to_seconds() -> None:
    jobs = read(line(1, submit="70.4"), line(2, submit=60, run="138467.5"), line(3, submit=70)).jobs
    assert (jobs.job_id.tolist(), jobs.submit_s.tolist(), jobs.runtime_s[0]) == ([2, 1, 3], [60, 70, 70], 138_468)


def test_comments_blank_lines_line_ends_and_foreign_bytes() -> None:
    text = "".join([HEADER, line(1), "\n", "  # remark\n", "; remark\n", line(2), line(3).rstrip()])
    foreign = text.replace("U12", "Ü").replace("\n", "\r\n").encode("latin-1")
    trace = gwf_trace(LongText(foreign), "log", lenient=False, zone=UTC)
    assert (trace.jobs.job_id.tolist(), trace.names.user) == ([1, 2, 3], ("�",))


BAD_LINES = [
    ("1 2 3\n", "3 fields where 29 are expected"),
    (line().rstrip() + "\t1\n", "30 fields where 29 are expected"),
    (line(run="abc"), "field 4 is not a number: 'abc'"),
    (line(run="nan"), "field 4 is not a number: 'nan'"),
    (line("J1"), "field 1 is not a number: 'J1'"),
    (line(run="1e999"), "field 4 is too large: '1e999'"),
    (line(submit=-1), "no submit time"),
]


@pytest.mark.parametrize(("bad", "fault"), BAD_LINES)
def test_a_malformed_line_is_refused_with_its_number_or_skipped(bad: str, fault: str) -> None:
    assert refused(HEADER, line(), bad, line(2)) == f"das2.gwf:6: {fault}"
    trace = read(bad, HEADER, line(1), bad, line(2), lenient=True)
    assert (trace.skipped_lines, trace.jobs.job_id.tolist()) == (2, [1, 2])


def test_logs_without_job_lines_are_refused() -> None:
    assert refused() == "das2.gwf: is empty"
    assert refused(HEADER) == "das2.gwf: has no job lines"
    assert refused("a\n", "b\n", lenient=True) == "das2.gwf: no job line can be read, 2 are malformed"


def test_a_log_is_recognised_by_its_first_job_line_or_its_field_list() -> None:
    assert looks_like_gwf((HEADER + line()).encode())
    assert looks_like_gwf(HEADER.encode())
    assert looks_like_gwf(b"# remark\n" + line(between=" ").encode() + b"1 2")
    assert not looks_like_gwf(b"; MaxProcs: 128\n" + b" ".join([b"1"] * 18))
    assert not looks_like_gwf(b"# remark\n" + b" ".join([b"word"] * 29))
    assert not looks_like_gwf(b"")


def test_energy_is_never_logged() -> None:
    assert np.isnan(read(line()).jobs.node_power_w).all()
