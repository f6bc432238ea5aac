"""The last good series on disk: a round trip, and a damaged file that is named and never believed."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.feed import CachedSeries, read_cache, write_cache
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem

pytestmark = pytest.mark.quick

values = st.lists(st.just(float("nan")) | st.floats(-1e6, 1e6), min_size=1, max_size=30)


def kept(numbers) -> CachedSeries:
    start_s = 1_730_674_800 + 900 * np.arange(len(numbers), dtype=np.int64)
    return CachedSeries(
        Series(start_s, int(start_s[-1]) + 900, np.array(numbers), "EUR/MWh", "nord-pool"), 1_730_700_000
    )


@given(values)
def test_a_round_trip(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("cache") / "deep" / "prices.csv"
    assert read_cache(path) is None
    before = kept(numbers)
    assert write_cache(path, before) is None
    after = read_cache(path)
    np.testing.assert_array_equal(after.series.value, before.series.value)
    np.testing.assert_array_equal(after.series.start_s, before.series.start_s)
    same = ("end_s", "unit", "source")
    assert all(getattr(after.series, name) == getattr(before.series, name) for name in same)
    assert after.fetched_s == before.fetched_s
    assert [file.name for file in path.parent.iterdir()] == ["prices.csv"]


@given(values, st.data())
def test_a_damaged_file_is_never_believed(tmp_path_factory, numbers, data):
    path = tmp_path_factory.mktemp("cache") / "prices.csv"
    write_cache(path, kept(numbers))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    path.write_bytes(data.draw(st.sampled_from([whole[:at], whole[:at] + changed + whole[at + 1 :]])))
    assert isinstance(read_cache(path), FeedProblem)


def test_a_checksum_does_not_make_sense_of_nonsense(tmp_path):
    path = tmp_path / "prices.csv"
    for text in (b"", b"source\n", b"source,a\nunit,b\nfetched_s,c\nend_s,d\nstart_s,value\n", b"\xff\xfe"):
        path.write_bytes(b"# offpeak feed cache 1, crc32 %08x\n" % zlib.crc32(text) + text)
        assert read_cache(path).condition is FeedCondition.CACHE_DAMAGED


def test_a_folder_in_its_place(tmp_path):
    assert read_cache(tmp_path).condition is FeedCondition.CACHE_DAMAGED
    assert write_cache(tmp_path, kept([1.0])).condition is FeedCondition.CACHE_UNWRITABLE
    (tmp_path / "file").write_text("")
    assert write_cache(tmp_path / "file" / "prices.csv", kept([1.0])).condition is FeedCondition.CACHE_UNWRITABLE
