"""The site's own table of power, by job or by user."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.job_power import read_job_power
from offpeak.model.jobs import Jobs

pytestmark = pytest.mark.quick

ONE = np.ones(3, np.int64)
JOBS = Jobs(np.array([30, 10, 20]), ONE, ONE, ONE, ONE, np.array([7, -1, 7]), ONE, ONE, ONE, ONE, np.full(3, np.nan))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "power.csv"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_by_job(table: Path, newline: str) -> None:
    lines = ["\ufeffjob_id, watts_per_node", "10,100", "", "20, 200.5", "30,3e2", "40,1", ""]
    table.write_bytes(gzip.compress(newline.join(lines).encode()))
    assert read_job_power(table, JOBS).tolist() == [300, 100, 200.5]


def test_by_user(table: Path) -> None:
    table.write_text("user,watts_per_node\n-1,50\n7,250\n")
    assert read_job_power(table, JOBS).tolist() == [250, 50, 250]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: the header is ''"),
        ("job,watts\n1,2\n", ":1: the header is 'job,watts'"),
        ("job_id,watts_per_node\n10,100\n20\n", ":3: not a whole number and a power above zero and below 1 MW: '20'"),
        (
            "job_id,watts_per_node\n10,100,1\n",
            ":2: not a whole number and a power above zero and below 1 MW: '10,100,1'",
        ),
        ("job_id,watts_per_node\n10,0\n", ":2: not a whole number and a power above zero and below 1 MW: '10,0'"),
        ("job_id,watts_per_node\n10,nan\n", ":2: not a whole number and a power above zero and below 1 MW: '10,nan'"),
        ("job_id,watts_per_node\n10,inf\n", ":2: not a whole number and a power above zero and below 1 MW: '10,inf'"),
        ("job_id,watts_per_node\n10,250W\n", ":2: not a whole number and a power above zero and below 1 MW: '10,250W'"),
        ("job_id,watts_per_node\n1.5,1\n", ":2: not a whole number and a power above zero and below 1 MW: '1.5,1'"),
        ("job_id,watts_per_node\nnan,1\n", ":2: not a whole number and a power above zero and below 1 MW: 'nan,1'"),
        ("job_id,watts_per_node\n1e30,1\n", ":2: not a whole number and a power above zero and below 1 MW: '1e30,1'"),
        ("job_id,watts_per_node\n10,1\n\n10,1\n", ":4: 10 is there twice"),
        ("job_id,watts_per_node\n20,5\n", ": no power in it for 2 jobs, the first is of job_id 30"),
        ("user,watts_per_node\n7,5\n", ": no power in it for 1 job, the first is of user -1"),
        ("user,watts_per_node\n", ": no power in it for 3 jobs, the first is of user 7"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_with_the_line(table: Path, content: str, message: str) -> None:
    table.write_text(content)
    with pytest.raises(BadInput) as caught:
        read_job_power(table, JOBS)
    assert str(caught.value).removeprefix(str(table)) == message
    assert caught.value.hint


def test_a_missing_table_is_refused(table: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_job_power(table, JOBS)
