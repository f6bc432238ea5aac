"""What one user writes into a job stops the order, the delays and the notices of nobody else."""

from hypothesis import given
from hypothesis import strategies as st
from queue_site import HOUR_S, NOW_S, Site, a_job, prices

from offpeak.plugin.queue_hook import queue_plan, start_times

FAR = 2**42
"""Slurm takes 4,294,967,294 minutes as a time limit."""
TWO_DAYS = [60] * 18 + [120] * 4 + [80] * 4 + [30] * 3 + [70] * 19
YEARS = st.sampled_from(("0001", "0002", "1969", "1970", "2000", "2026", "2038", "2106", "2999", "9998", "9999"))
TIMES = st.builds(
    "{}-{}T{}".format, YEARS, st.sampled_from(("01-01", "12-31")), st.sampled_from(("00:00", "23:59:59Z"))
)
LENGTHS = st.one_of(
    st.integers(0, 10**30).map(str), st.sampled_from(("0s", "12h", "99999999999d", "1e9h", "inf", "nan"))
)
HINTS = st.one_of(
    st.builds("offpeak:deadline={}".format, TIMES),
    st.builds("offpeak:delay={}".format, LENGTHS),
    st.builds("offpeak:checkpoint={}".format, LENGTHS),
    st.builds("offpeak:delay=12h,deadline={},checkpoint={}".format, TIMES, LENGTHS),
    st.text(max_size=20).map("offpeak:{}".format),
)
HOSTILE = st.fixed_dictionaries(
    {"comment": HINTS},
    optional={
        "limit_s": st.one_of(st.none(), st.integers(0, FAR)),
        "begin_s": st.one_of(st.none(), st.integers(0, FAR)),
        "nodes": st.integers(1, 10**6),
        "cpus": st.integers(1, 2**40),
        "name": st.text(max_size=20),
        "qos": st.text(max_size=5),
        "tasks": st.integers(1, 2**32),
        "submit_s": st.integers(0, FAR),
        "offset": st.integers(-(2**31), 2**31),
    },
)


def site_of(*others) -> Site:
    delayed = a_job(1, comment="offpeak:delay=12h", limit_s=2 * HOUR_S)
    jobs = (delayed, a_job(2, nodes=5), a_job(3), *others)
    power = {job.job_id: 400.0 for job in jobs}
    return Site(jobs, facts={"prices": prices(*TWO_DAYS), "node_power_w": power})


@given(HOSTILE)
def test_any_value_of_one_job_leaves_the_delays_of_the_others(fields):
    alone, plan = site_of().plan(), site_of(a_job(9, **fields)).plan()
    assert alone.begin_s["1"] == plan.begin_s["1"] > NOW_S
    assert alone.tell["1"] == plan.tell["1"]


def test_a_job_that_cannot_be_handled_at_all_is_left_alone_with_the_reason(monkeypatch, mocker):
    latest_start_s = start_times.latest_start_s

    def fails(job, hints, rules):
        if job.job_id == "9":
            raise ValueError("year 0 is out of range")
        return latest_start_s(job, hints, rules)

    monkeypatch.setattr("offpeak.plugin.queue_hook.start_times.latest_start_s", fails)
    monkeypatch.setattr("offpeak.plugin.queue_hook.window.latest_start_s", fails)
    plans = mocker.spy(queue_plan, "_plan_all")
    others = [a_job(number) for number in range(10, 266)]
    plan = site_of(a_job(9, comment="offpeak:delay=12h"), *others).plan()
    # Not one for each job that waits.
    assert plans.call_count < 30
    assert plan.begin_s == site_of().plan().begin_s
    (left,) = [each for each in plan.decisions if each.subject == "job 9"]
    assert left.decided == "left alone"
    assert left.reason == "a value of it cannot be handled: ValueError: year 0 is out of range"
