"""Price files: layouts, clock changes, changing steps, gaps, every complaint with its line, and the way back."""

import gzip
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.price_model import write_series_csv
from offpeak.errors import BadInput, BadPrices, CannotWrite
from offpeak.model.step_series import Series, merge
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout, parse_layout

pytestmark = pytest.mark.quick

NAN = float("nan")


@pytest.fixture
def read(tmp_path):
    """Reads a text as a price file."""

    def read_text(text: str | bytes, layout: str = "", name: str = "p_eur_per_mwh.csv") -> Series:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_series(path, parse_layout(layout))

    return read_text


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def hours_of(day: str, zone: str) -> list[str]:
    """The local hours of a day as an exchange lists them: 23, 24 or 25."""
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    seconds = ((begin + timedelta(days=1)).timestamp() - begin.timestamp()) / 3600
    moments = [datetime.fromtimestamp(begin.timestamp() + 3600 * i, ZoneInfo(zone)) for i in range(int(seconds))]
    return [f"{moment:%Y-%m-%d %H:%M}" for moment in moments]


def test_the_plain_file(read):
    series = read("utc,price\n2020-01-01T00:00Z,41.88\n2020-01-01T01:00Z,-3.5\n")
    assert series.start_s.tolist() == [1577836800, 1577840400]
    assert series.end_s == 1577844000
    assert series.value.tolist() == [41.88, -3.5]
    assert (series.unit, series.source) == ("EUR/MWh", "p_eur_per_mwh.csv, column price")


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffutc,price\r\n2020-01-01T01:00+01:00,1\r\n2020-01-01T02:00+01:00,2\r\n\r\n",
        "utc , price\n2020-01-01 00:00:00Z , 1\n\n2020-01-01 01:00:00Z, 2",
        'utc,note,price\n"2020-01-01T00:00:00.000Z",a,1\n2020-01-01T01:00:00.000Z,,2\n',
        "utc,price,forecast\n2020-01-01T00:00Z,1,7\n2020-01-01T01:00Z,2,7\n",
    ],
)
def test_ways_of_writing_the_same(read, text):
    series = read(text)
    assert series.start_s.tolist() == [1577836800, 1577840400]
    assert series.value.tolist() == [1, 2]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_first_column_may_have_no_name(read, separator):
    rows = (f"{hour}{separator}2020-01-01T{hour:02}:00Z{separator}{40 + hour}.5" for hour in range(3))
    text = "\n".join([f"{separator}utc{separator}price", *rows, ""])
    assert read(text, "time=utc,value=price,unit=EUR/MWh").value.tolist() == [40.5, 41.5, 42.5]


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("price", ["41.88", "41,88"])
def test_semicolons_or_tabs_separate_where_the_header_has_no_comma(read, separator, price):
    rows = ("utc", "price"), ("2020-01-01T00:00Z", price), ("2020-01-01T01:00Z", "-3")
    series = read("".join(f"{separator.join(row)}\n" for row in rows))
    assert series.value.tolist() == [41.88, -3]
    assert series.start_s.tolist() == [1577836800, 1577840400]


def test_declared_columns_and_unit(read):
    text = "a,when,b\n1,2020-01-01T00:00Z,0.01\n2,2020-01-01T01:00Z,0.02\n"
    series = read(text, "time=when,value=b,unit=USD/kWh")
    assert series.value.tolist() == [10, 20]
    assert series.currency == "USD"


def test_a_column_of_values_without_times(read):
    series = read('"price"\n26.1\n\n21.85\n', "start=2014-06-01,step=1h,value=price,unit=USD/MWh,zone=America/Chicago")
    assert int(series.start_s[0]) == unix("2014-06-01T05:00Z")
    assert series.length_s.tolist() == [3600] * 3
    assert series.gaps() == ((unix("2014-06-01T06:00Z"), unix("2014-06-01T07:00Z")),)


def test_missing_values_and_missing_rows_are_gaps(read):
    hours = [0, 1, 2, 5, 6, 7, 8]
    rows = "".join(f"2020-01-01T{hour:02}:00Z,{'' if hour == 1 else hour}\n" for hour in hours)
    series = read("utc,price\n" + rows)
    begin = unix("2020-01-01T00:00Z")
    assert series.gaps() == ((begin + 3600, begin + 7200), (begin + 3 * 3600, begin + 5 * 3600))
    assert series.end_s == begin + 9 * 3600


@pytest.mark.parametrize("steps", [[60] * 48 + [15] * 96, [15] * 96 + [60] * 48, [30] * 48 + [60] * 30 + [15] * 8])
def test_a_change_of_the_step_is_no_gap(read, steps):
    minutes = np.cumsum([0, *steps[:-1]])
    rows = "".join(
        f"{np.datetime64('2025-09-29T00:00') + np.timedelta64(int(m), 'm')}Z,{i}\n" for i, m in enumerate(minutes)
    )
    series = read("utc,price\n" + rows)
    assert series.gaps() == ()
    assert series.length_s.tolist() == [60 * step for step in steps]


def test_a_lost_quarter_after_the_change_is_a_gap(read):
    minutes = np.delete(np.cumsum([0, *[60] * 48, *[15] * 96]), 52)
    rows = "".join(f"{np.datetime64('2025-09-29T00:00') + np.timedelta64(int(m), 'm')}Z,1\n" for m in minutes)
    assert [(end - start) for start, end in read("utc,price\n" + rows).gaps()] == [900]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2024-03-31", 23),
        ("Europe/Berlin", "2024-10-27", 25),
        ("America/New_York", "2024-03-10", 23),
        ("America/New_York", "2024-11-03", 25),
        ("America/New_York", "2024-06-01", 24),
    ],
)
def test_local_days_of_23_and_25_hours(read, zone, day, hours):
    times = hours_of(day, zone)
    series = read("local,price\n" + "".join(f"{t},{i}\n" for i, t in enumerate(times)), f"zone={zone}")
    assert series.length_s.tolist() == [3600] * hours
    assert int(series.start_s[0]) == datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_doubled_quarters_are_distinguished_by_their_order(read):
    quarters = [f"2024-10-27 0{h}:{m:02}" for h in (1, 2, 2, 3) for m in (0, 15, 30, 45)]
    series = read("local,price\n" + "".join(f"{t},1\n" for t in quarters), "zone=Europe/Berlin")
    assert series.length_s.tolist() == [900] * 16
    assert int(series.start_s[0]) == unix("2024-10-26T23:00Z")


def test_an_hour_that_the_clock_never_shows(read):
    rows = "".join(f"2016-03-27 0{hour}:00,1\n" for hour in range(5))
    with pytest.raises(BadPrices, match=r"csv:4: Europe/Berlin has no 2016-03-27 02:00") as problem:
        read("local,price\n" + rows, "zone=Europe/Berlin")
    assert "zone=+01:00" in problem.value.hint
    assert len(read("local,price\n" + rows, "zone=+01:00")) == 5


GOOD = "2020-01-01T00:00Z,1\n2020-01-01T01:00Z,2\n"


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("", "", "csv: is empty"),
        ("\n \n", "", "csv: is empty"),
        ("utc,price\n", "", "no rows"),
        ("2020-01-01T00:00Z,41.88\n", "", "csv:1: holds no column names"),
        ("; Version: 2.2\n; MaxProcs: 4\n1 0 0 60\n", "", "csv:1: is a job log in SWF"),
        ("; MaxProcs: 4\n1 0 0 60\n", "", "csv:1: is a job log in SWF, and holds no column names"),
        ("utc,utc\n" + GOOD, "", "csv:1: names a column twice"),
        ("utc,price\n" + GOOD, "value=prize", "csv:1: has no column 'prize'"),
        ("utc,price\n" + GOOD, "time=tuc", "csv:1: has no column 'tuc'"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00Z\n", "", "csv:4: has 1 column, the header has 2"),
        ("utc,price\n" + GOOD + "\n2020-01-01T02:00Z,1,5\n", "", "csv:5: has 3 columns"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00Z,12x\n", "", "csv:4: price is '12x', which is not a number"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00Z,inf\n", "", "csv:4: price is 'inf'"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00Z,1e308\n", "", "csv:4: 1e.308 EUR/MWh is not a plausible price"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00Z,-101\n", "unit=EUR/kWh", "csv:4: -101000 EUR/MWh is not a plaus"),
        ("utc,co2\n" + GOOD + "2020-01-01T02:00Z,1e5\n", "unit=g/kWh", "csv:4: 100000 g/kWh is not a plausible carbon"),
        ("utc,price\n\n" + GOOD + "2020-01-01T01:00Z,3\n", "", "csv:5: the time 2020-01-01T01:00Z stands twice"),
        (
            "utc,price\n" + GOOD + "2019-01-01T01:00Z,3\n",
            "",
            "csv:4: the time 2019-01-01T01:00Z comes after 2020-01-01T01",
        ),
        ("utc,price\n" + GOOD + "yesterday,3\n", "", "csv:4: the time 'yesterday' cannot be read"),
        ("utc,price\n" + GOOD + ",3\n", "", "csv:4: the time '' cannot be read"),
        ("utc,price\n" + GOOD + "2020-01-01T02:00,3\n", "", "csv:4: .* unlike the times before"),
        ("utc,price\n2020-01-01T00:00,1\n2020-01-01T01:00,1\n", "", "csv:2: .* has neither Z nor an offset"),
        ("utc;price\n2020-01-01T00:00Z;1.23,5\n", "", "no column of numbers"),
        ("utc;price\n2020-01-01T00:00Z;1;2\n", "", "csv:2: has 3 columns, the header has 2"),
        ("utc,price\n2020-01-01T00:00Z,\n2020-01-01T01:00Z,\n", "value=price", "'price' holds no number"),
        ("utc,price\n2020-01-01T00:00Z,1\n", "", "csv:2: a single row"),
        (b"utc,price\n2020-01-01T00:00Z,1\n\xe4,2\n", "", "csv:3: is not UTF-8"),
        (b"PK\x03\x04\x00\x00", "", "binary file"),
        (gzip.compress(b"utc,price\n" + b"2020-01-01T00:00Z,1\n" * 999, mtime=0)[:-20], "", "gzip file ends too early"),
    ],
)
def test_unreadable_price_is_named_with_its_line(read, text, layout, message):
    with pytest.raises(BadPrices, match=message) as problem:
        read(text, layout)
    assert problem.value.hint
    assert "\n" not in str(problem.value)


MAPS = (
    "Datetime (UTC),Country,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle),"
    "Carbon-free energy percentage (CFE%)\n"
    "2024-01-01 00:00:00,Germany,DE,180.5,230.1,61.2\n2024-01-01 01:00:00,Germany,DE,170.5,220.1,62.2\n"
)


def test_direct_and_lifecycle_intensities_are_requested(read):
    with pytest.raises(
        BadPrices, match=r"maps\.csv:1: holds more than one carbon intensity: 'Carbon.*direct.*Life"
    ) as requests:
        read(MAPS, name="maps.csv")
    assert "maps.csv,value=Carbon intensity gCO₂eq/kWh (direct)'" in requests.value.hint
    for value, first in (("direct", 180.5), ("life-cycle", 230.1), ("CFE", 61.2)):
        series = read(MAPS, f"value={value},unit=g/kWh", name="maps.csv")
        assert (series.value[0], series.start_s[0]) == (first, unix("2024-01-01T00:00Z"))
    assert read(MAPS, "value=direct", name="maps.csv").unit == "g/kWh"
    with pytest.raises(BadPrices, match="has no column 'carbon'"):
        read(MAPS, "value=carbon", name="maps.csv")


@pytest.mark.parametrize(("name", "layout"), [("p_eur_per_mwh.csv", ""), ("p.csv", "unit=EUR/MWh")])
def test_prices_beside_intensities_are_the_prices(read, name, layout):
    rows = "utc,co2_direct,co2_life_cycle,price\n2020-01-01T00:00Z,300,350,50\n2020-01-01T01:00Z,310,360,60\n"
    series = read(rows, layout, name=name)
    assert (series.unit, series.value.tolist()) == ("EUR/MWh", [50, 60])


def test_one_intensity_needs_no_question(read):
    series = read("utc,gco2_per_kwh,other\n2020-01-01T00:00Z,400,1\n2020-01-01T01:00Z,410,1\n", name="maps.csv")
    assert (series.unit, series.value.tolist()) == ("g/kWh", [400, 410])


def test_a_naive_time_asks_for_its_zone(read):
    with pytest.raises(BadPrices) as problem:
        read("utc,price\n2020-01-01 00:00,1\n2020-01-01 01:00,2\n")
    assert "zone=Europe/Berlin" in problem.value.hint


def test_no_such_file(tmp_path):
    with pytest.raises(BadPrices, match="no such file"):
        read_series(tmp_path / "p_eur_per_mwh.csv", PriceFileLayout())


def test_a_hundred_thousand_rows_are_read_by_columns(read):
    times = np.datetime_as_string(np.datetime64("2020-01-01T00:00") + np.arange(100_000) * np.timedelta64(15, "m"))
    text = "utc,price\n" + "".join(f"{t}Z,{i % 97}.25\n" for i, t in enumerate(times))
    assert len(read(text)) == 100_000


@st.composite
def regular_series(draw):
    step_s = draw(st.sampled_from([900, 1800, 3600]))
    value = st.one_of(st.floats(-500, 5000), st.just(NAN))
    values = draw(st.lists(value, min_size=2, max_size=50).filter(lambda some: not np.isnan(some).all()))
    start_s = draw(st.integers(0, 10**9)) + step_s * np.arange(len(values))
    return Series(start_s, int(start_s[-1]) + step_s, np.array(values), "EUR/MWh", "s_eur_per_mwh.csv")


@settings(deadline=None)
@given(regular_series(), st.sampled_from(["", ".gz"]))
def test_written_prices_are_read_back(tmp_path_factory, series, suffix):
    path = tmp_path_factory.mktemp("written") / f"s_eur_per_mwh.csv{suffix}"
    write_series_csv(series, path)
    again = read_series(path, PriceFileLayout())
    assert (again.end_s, again.unit) == (series.end_s, series.unit)
    for one, other in ((series.start_s, again.start_s), (series.value, again.value)):
        assert np.array_equal(one, other, equal_nan=True)


def test_the_written_text(tmp_path):
    series = Series(np.array([0, 3600, 7200]), 10800, np.array([1.5, NAN, -2]), "g/kWh", "x")
    write_series_csv(series, tmp_path / "c_g_per_kwh.csv")
    text = (tmp_path / "c_g_per_kwh.csv").read_text()
    assert text == "utc,carbon\n1970-01-01T00:00Z,1.5\n1970-01-01T01:00Z,\n1970-01-01T02:00Z,-2.0\n"


def test_a_name_that_hides_the_unit_or_a_missing_folder(tmp_path):
    series = Series(np.array([0]), 3600, np.array([1.5]), "EUR/MWh", "x")
    with pytest.raises(BadInput, match="EUR/MWh") as problem:
        write_series_csv(series, tmp_path / "prices.csv")
    assert "_eur_per_mwh.csv" in problem.value.hint
    with pytest.raises(CannotWrite):
        write_series_csv(series, tmp_path / "none" / "p_eur_per_mwh.csv")


def test_every_year_of_prices_and_carbon(shared):
    prices = [(path, PriceFileLayout()) for path in shared.glob("data/prices/*.csv.gz")]
    carbon = [(path, PriceFileLayout(value="direct")) for path in shared.glob("data/carbon/*.csv.gz")]
    if not prices or not carbon:
        pytest.skip("no price files")
    for path, layout in (*prices, *carbon):
        series = read_series(path, layout)
        assert set(series.length_s[series.known].tolist()) == {3600}, path
        assert series.unit in ("EUR/MWh", "USD/MWh", "g/kWh")


def test_known_gaps_of_a_real_file(shared):
    folder = shared / "data" / "prices"
    hours = {
        code: sum(
            end - start for start, end in read_series(next(folder.glob(f"price_{code}_*")), PriceFileLayout()).gaps()
        )
        / 3600
        for code in ("DE-LU", "FR", "NL", "CH")
    }
    assert hours == {"DE-LU": 195, "FR": 101, "NL": 245, "CH": 3100}


def test_local_files_whose_days_all_have_24_hours(shared):
    for path in (shared / "data" / "prices" / "epf").glob("*.csv.gz"):
        series = read_series(path, parse_layout("time=local_time,unit=EUR/MWh,zone=+01:00"))
        assert (len(series), series.gaps()) == (17472, ()), path
        with pytest.raises(BadPrices, match="its clock goes from"):
            read_series(path, parse_layout("unit=EUR/MWh,zone=Europe/Berlin"))


def test_files_of_one_column(shared):
    layout = parse_layout("start=2014-06-01,step=1h,value=price,unit=USD/MWh,zone=America/Chicago")
    for path in (shared / "data" / "xsede_2014").rglob("*.csv"):
        if path.name != "xsede_sites.csv":
            assert len(merge(read_series(path, layout))) >= 1, path
