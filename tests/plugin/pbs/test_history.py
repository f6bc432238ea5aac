"""Daily accounting files: which are read, in which order, and the message when there are none."""

import gzip
import os
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.plugin.pbs.accounting import accounting_text, openpbs_accounting_folder

pytestmark = pytest.mark.quick

LAST = date(2026, 3, 1)


def line(day: date) -> bytes:
    return f"{day:%m/%d/%Y} 10:00:00;Q;{day.toordinal()}.head;queue=batch\n".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of the 40 days until the 1st of March, with something else among them."""
    for age in range(40):
        day = LAST - timedelta(days=age)
        (tmp_path / f"{day:%Y%m%d}").write_bytes(line(day))
    (tmp_path / "20260230.old").write_bytes(b"not a day\n")
    (tmp_path / "notes").write_bytes(b"not a day\n")
    return tmp_path


def content(text: LongText) -> bytes:
    return b"".join(text.lines())


def test_a_day_and_those_after_it_are_read_oldest_first(folder: Path) -> None:
    days = [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]
    assert content(accounting_text(folder, days[0])) == b"".join(line(day) for day in days)
    assert content(accounting_text(folder)).count(b"\n") == 40


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(0, 60), st.sets(st.integers(0, 90), min_size=1))
def test_every_file_within_the_days_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, today: date, days: int, ages: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("accounting")
    for age in ages | {0}:
        day = today - timedelta(days=age)
        (folder / f"{day:%Y%m%d}").write_bytes(line(day))
    wanted = sorted(today - timedelta(days=age) for age in ages | {0} if age <= days)
    assert content(accounting_text(folder, today - timedelta(days=days))) == b"".join(map(line, wanted))


def test_old_days_may_be_gzipped_and_the_last_line_unfinished(tmp_path: Path) -> None:
    (tmp_path / "20260227.gz").write_bytes(gzip.compress(b"a\n"))
    (tmp_path / "20260228").write_bytes(b"b cut off")
    (tmp_path / "20260301").write_bytes(b"c\nd cut o")
    assert content(accounting_text(tmp_path)) == b"a\nb cut off\nc\nd cut o"


def test_no_file_of_these_days(folder: Path) -> None:
    with pytest.raises(BadTrace, match=r"no accounting file since 2026-03-09$") as caught:
        accounting_text(folder, date(2026, 3, 9))
    assert caught.value.hint == "the files there are from 20260121 to 20260301: ask for more days"
    with pytest.raises(BadTrace, match=r"no accounting file$") as caught:
        accounting_text(folder.parent)
    assert "20260131" in caught.value.hint


def test_a_folder_that_is_not_there_or_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no such folder") as caught:
        accounting_text(tmp_path / "gone")
    assert "/var/spool/torque" in caught.value.hint
    (tmp_path / "file").touch()
    with pytest.raises(BadTrace, match="cannot be read: Not a directory"):
        accounting_text(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_is_closed(tmp_path: Path) -> None:
    home = tmp_path / "var/spool/pbs/server_priv"
    (home / "accounting").mkdir(parents=True)
    home.chmod(0)
    folder = openpbs_accounting_folder(tmp_path)
    assert folder == home / "accounting"
    with pytest.raises(BadTrace, match="Permission denied") as caught:
        accounting_text(folder)
    assert "root" in caught.value.hint


def test_accounting_folders_of_both_servers(tmp_path: Path) -> None:
    usual = tmp_path / "var/spool/pbs/server_priv/accounting"
    assert openpbs_accounting_folder(tmp_path) == usual
    usual.mkdir(parents=True)
    assert openpbs_accounting_folder(tmp_path) == usual


def test_pbs_conf_goes_first(tmp_path: Path) -> None:
    usual, moved = (tmp_path / home / "server_priv/accounting" for home in ("var/spool/pbs", "srv/pbs"))
    usual.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    conf = tmp_path / "etc/pbs.conf"
    conf.write_text("PBS_EXEC=/opt/pbs\n#PBS_HOME=/old\nPBS_HOME=/srv/pbs\nPBS_START_MOM=0\n")
    assert openpbs_accounting_folder(tmp_path) == usual
    moved.mkdir(parents=True)
    assert openpbs_accounting_folder(tmp_path) == moved
