"""Exports of exchanges as they come: each source over a change of its clock, and files where more than one is meant."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series
from offpeak.prices.exports import known_exports
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout

pytestmark = pytest.mark.quick

BERLIN, NEW_YORK, CHICAGO, BRISBANE = map(
    ZoneInfo, ("Europe/Berlin", "America/New_York", "America/Chicago", "Australia/Brisbane")
)
HOUR = timedelta(hours=1)
WARSAW = ZoneInfo("Europe/Warsaw")
EUROPE, AMERICA = (datetime(2024, month, day, 16, tzinfo=UTC) for month, day in ((10, 26), (11, 2)))
"""Some hours before clocks go back in the night."""
Row = Callable[[datetime, datetime, str], str]


@dataclass(frozen=True)
class Case:
    """A file of a source: its header, and its row for an hour's begin and end in `zone` and a price."""

    source: str
    header: str
    row: Row
    zone: ZoneInfo
    unit: str = "EUR/MWh"
    factor: float = 1.0
    from_utc: datetime = EUROPE
    newest_first: bool = False
    tail: str = ""
    quarters: bool = False


def mark(moment: datetime) -> str:
    return f"{moment:%d/%m/%Y %H:%M:%S} ({'CEST' if moment.dst() else 'CET'})"


def comma(price: str) -> str:
    return price.replace(".", ",")


DAY_CLOCK = "%d.%m.%Y %H:%M"
CASES = (
    Case(
        "ENTSO-E Transparency Platform",
        '"MTU (CET/CEST)","Area","Sequence","Day-ahead Price (EUR/MWh)","Intraday Price (EUR/MWh)"',
        lambda begin, end, price: (
            f'"{mark(begin)} - {mark(end)}","BZN|X","Sequence 2","1",""\n'
            f'"{mark(begin)} - {mark(end)}","BZN|X","Sequence 1","{price}",""'
        ),
        BERLIN,
    ),
    Case(
        "ENTSO-E Transparency Platform",
        '"MTU (CET/CEST)","Day-ahead Price [EUR/MWh]","Currency","BZN|X"',
        lambda begin, end, price: f'"{begin:{DAY_CLOCK}} - {end:{DAY_CLOCK}}","{price}","EUR",""',
        BERLIN,
    ),
    Case(
        "ENTSO-E Transparency Platform, in Eastern European time",
        '"MTU (EET/EEST)","Area","Sequence","Day-ahead Price (EUR/MWh)"',
        lambda begin, _, price: f'"{begin:%d/%m/%Y %H:%M:%S} ({begin.tzname()})","BZN|FI","Without Sequence","{price}"',
        ZoneInfo("Europe/Helsinki"),
    ),
    Case(
        "ENTSO-E Transparency Platform, in Western European time",
        '"MTU (WET/WEST)","Area","Sequence","Day-ahead Price (EUR/MWh)"',
        lambda begin, _, price: f'"{begin:%d/%m/%Y %H:%M:%S} ({begin.tzname()})","BZN|PT","","{price}"',
        ZoneInfo("Europe/Lisbon"),
    ),
    Case(
        "ENTSO-E Transparency Platform, in UTC",
        '"MTU (UTC)","Day-ahead Price [GBP/MWh]","Currency","BZN|GB"',
        lambda begin, end, price: f'"{begin:{DAY_CLOCK}} - {end:{DAY_CLOCK}}","{price}","GBP",""',
        ZoneInfo("UTC"),
        "GBP/MWh",
    ),
    Case(
        "SMARD, in German",
        "\ufeffDatum von;Datum bis;Deutschland/Luxemburg [€/MWh] Originalauflösungen;Frankreich [€/MWh] x",
        lambda begin, end, price: f"{begin:{DAY_CLOCK}};{end:{DAY_CLOCK}};{comma(price)};-",
        BERLIN,
    ),
    Case(
        "SMARD, in German, until 2024",
        "Datum;Anfang;Ende;Deutschland/Luxemburg [€/MWh] Originalauflösungen;Frankreich [€/MWh] x",
        lambda begin, end, price: f"{begin:%d.%m.%Y};{begin:%H:%M};{end:%H:%M};{comma(price)};1,5",
        BERLIN,
    ),
    Case(
        "SMARD, in English",
        "Start date;End date;Germany/Luxembourg [€/MWh] Original resolutions;France [€/MWh] x",
        lambda begin, end, price: f"{begin:%b %-d, %Y %-I:%M %p};{end:%b %-d, %Y %-I:%M %p};{price};1.5",
        BERLIN,
    ),
    Case(
        "SMARD, in English, until 2024",
        "Date;Start;End;Germany/Luxembourg [€/MWh] Original resolutions",
        lambda begin, end, price: f"{begin:%b %-d, %Y};{begin:%-I:%M %p};{end:%-I:%M %p};{price}",
        BERLIN,
    ),
    Case(
        "Nord Pool data portal",
        "Delivery Start (CET);Delivery End (CET);SE3 Price (SEK)",
        lambda begin, end, price: f"{begin:%d.%m.%Y %H:%M:%S};{end:%d.%m.%Y %H:%M:%S};{comma(price)}",
        BERLIN,
        "SEK/MWh",
    ),
    Case(
        "Energi Data Service",
        "HourUTC;HourDK;PriceArea;SpotPriceDKK;SpotPriceEUR",
        lambda begin, end, price: f"{begin:%Y-%m-%dT%H:%M:%S};{end:%Y-%m-%d %H:%M};DK1;700,5;{comma(price)}",
        ZoneInfo("UTC"),
        newest_first=True,
    ),
    Case(
        "aWATTar",
        '{"object": "list", "data": [',
        lambda begin, end, price: (
            json.dumps(
                {
                    "start_timestamp": int(begin.timestamp() * 1000),
                    "end_timestamp": int(end.timestamp() * 1000),
                    "marketprice": float(price),
                    "unit": "Eur/MWh",
                }
            )
            + ("]}" if price == LAST else ",")
        ),
        ZoneInfo("UTC"),
    ),
    Case(
        "Octopus Agile",
        '{"count": 9, "results": [',
        lambda begin, end, price: (
            json.dumps(
                {
                    "value_exc_vat": float(price),
                    "value_inc_vat": 1.05 * float(price),
                    "valid_from": f"{begin:%Y-%m-%dT%H:%M:%SZ}",
                    "valid_to": f"{end:%Y-%m-%dT%H:%M:%SZ}",
                    "payment_method": None,
                }
            )
            + ("]}" if price == FIRST else ",")
        ),
        ZoneInfo("UTC"),
        "GBP/MWh",
        10.0,
        newest_first=True,
    ),
    Case(
        "Elexon, market index",
        "DataProvider,StartTime,SettlementDate,SettlementPeriod,Price,Volume",
        lambda begin, _, price: f"APXMIDP,{begin:%Y-%m-%dT%H:%M:%SZ},{begin:%Y-%m-%d},1,{price},900",
        ZoneInfo("UTC"),
        "GBP/MWh",
    ),
    Case(
        "Elexon, system prices",
        "SettlementDate,SettlementPeriod,StartTime,SystemSellPrice,SystemBuyPrice",
        lambda begin, _, price: f"{begin:%Y-%m-%d},1,{begin:%Y-%m-%dT%H:%M:%SZ},{price},{price}",
        ZoneInfo("UTC"),
        "GBP/MWh",
    ),
    Case(
        "Ember, European wholesale prices",
        "Country,ISO3 Code,Datetime (UTC),Datetime (Local),Price (EUR/MWhe)",
        lambda begin, end, price: f"Austria,AUT,{begin:%Y-%m-%d %H:%M:%S},{end:%Y-%m-%d %H:%M:%S},{price}",
        ZoneInfo("UTC"),
    ),
    Case(
        "CAISO OASIS",
        "INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,OPR_HR,NODE,LMP_TYPE,MW",
        lambda begin, end, price: (
            f"{begin:%Y-%m-%dT%H:%M:%S-00:00},{end:%Y-%m-%dT%H:%M:%S-00:00},1,TH_NP15,MCC,0.5\n"
            f"{begin:%Y-%m-%dT%H:%M:%S-00:00},{end:%Y-%m-%dT%H:%M:%S-00:00},1,TH_NP15,LMP,{price}"
        ),
        ZoneInfo("UTC"),
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "PJM Data Miner, in Eastern prevailing time",
        "datetime_beginning_ept,pnode_name,total_lmp_rt,row_is_current",
        lambda begin, _, price: (
            f"{begin:%-m/%-d/%Y %-I:%M:%S %p},WEST,1,False\n{begin:%-m/%-d/%Y %-I:%M:%S %p},WEST,{price},True"
        ),
        NEW_YORK,
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "PJM Data Miner",
        "datetime_beginning_utc,datetime_beginning_ept,pnode_id,pnode_name,system_energy_price_da,total_lmp_da",
        lambda begin, end, price: f"{begin:%-m/%-d/%Y %-I:%M:%S %p},{end:%-m/%-d/%Y},1,WEST,1.5,{price}",
        ZoneInfo("UTC"),
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "ERCOT, day-ahead settlement point prices",
        "DeliveryDate,HourEnding,SettlementPoint,SettlementPointPrice,DSTFlag",
        lambda begin, _, price: f"{begin:%m/%d/%Y},{begin.hour + 1:02}:00,HB_NORTH,{price},N",
        CHICAGO,
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "ERCOT, real-time settlement point prices",
        "DeliveryDate,DeliveryHour,DeliveryInterval,SettlementPointName,SettlementPointPrice,DSTFlag",
        lambda begin, _, price: "\n".join(
            f"{begin:%m/%d/%Y},{begin.hour + 1},{quarter},HB_NORTH,{price},N" for quarter in (1, 2, 3, 4)
        ),
        CHICAGO,
        "USD/MWh",
        from_utc=AMERICA,
        quarters=True,
    ),
    Case(
        "ISO New England",
        '"C","Day-Ahead Energy Market Hourly LMP Report"\n"H","Date","Hour Ending","Location ID","Location Name",'
        '"Locational Marginal Price","Energy Component"\n"H","Date","HE","String","String","Number","Number"',
        lambda begin, _, price: (
            f'"D","{begin:%m/%d/%Y}","{begin.hour + 1:02}{"X" if begin.fold else ""}","4000",".H.HUB",{price},1'
        ),
        NEW_YORK,
        "USD/MWh",
        from_utc=AMERICA,
        tail='"T","34"',
    ),
    Case(
        "NYISO",
        '"Time Stamp","Name","PTID","LBMP ($/MWHr)","Marginal Cost Losses ($/MWHr)"',
        lambda begin, _, price: f'"{begin:%m/%d/%Y %H:%M}","CAPITL",61757,{price},1.5',
        NEW_YORK,
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "SPP",
        "Interval,GMTIntervalEnd,Settlement Location,Pnode,LMP,MLC,MCC,MEC",
        lambda _, end, price: f"{end:%m/%d/%Y %H:%M:%S},{end.astimezone(UTC):%m/%d/%Y %H:%M:%S},HUB,HUB,{price},1,2,3",
        CHICAGO,
        "USD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "IESO, hourly Ontario energy price",
        "\\\\Hourly Ontario Energy Price\n\\\\2024 Yearly Report\n,,,\nDate,Hour,HOEP,Hour 1 Predispatch,OR 10 Min",
        lambda begin, _, price: f"{begin:%Y-%m-%d},{begin.hour + 1},{price},99,0.2",
        timezone(timedelta(hours=-5)),
        "CAD/MWh",
        from_utc=AMERICA,
    ),
    Case(
        "PSE, market price of energy",
        "dtime,period,rce_pln,dtime_utc,business_date,publication_ts",
        lambda begin, end, price: (
            f"{end:%Y-%m-%d %H:%M:%S},x,{price},{end.astimezone(UTC):%Y-%m-%d %H:%M:%S},{begin:%Y-%m-%d},2024-10-25"
        ),
        WARSAW,
        "PLN/MWh",
    ),
    Case(
        "PSE, market price of energy, on the clock of Poland",
        "dtime;period;rce_pln;business_date",
        lambda begin, end, price: f"{end:%Y-%m-%d %H:%M:%S};x;{price};{begin:%Y-%m-%d}",
        WARSAW,
        "PLN/MWh",
    ),
    Case(
        "Elering",
        '"Ajatempel (UTC)";"Kuupäev (Eesti aeg)";"NPS Eesti"',
        lambda begin, _, price: f'"{begin.timestamp():.0f}";"{begin:%d.%m.%Y %H:%M}";"{price.replace(".", ",")}"',
        WARSAW,
        "EUR/MWh",
    ),
    Case(
        "AEMO, price and demand",
        "REGION,SETTLEMENTDATE,TOTALDEMAND,RRP,PERIODTYPE",
        lambda _, end, price: f"QLD1,{end:%Y/%m/%d %H:%M:%S},6500.5,{price},TRADE",
        BRISBANE,
        "AUD/MWh",
    ),
)
HOURS = 34
FIRST, LAST = "40.25", f"{40.25 + HOURS - 1}"


def write(case: Case, folder: Path) -> tuple[Path, list[int], list[float]]:
    """Return the file, the begins of its hours [Unix s], and their prices as they are written."""
    moments = [(case.from_utc + number * HOUR).astimezone(case.zone) for number in range(HOURS)]
    prices = [40.25 + number for number in range(HOURS)]
    rows = [
        case.row(begin, (begin.astimezone(UTC) + HOUR).astimezone(case.zone), str(price))
        for begin, price in zip(moments, prices, strict=True)
    ]
    rows = rows[::-1] if case.newest_first else rows
    path = folder / ("export.json" if case.header.startswith("{") else "export.csv")
    path.write_text("\n".join([case.header, *rows, case.tail, ""]), encoding="utf-8")
    return path, [int(moment.timestamp()) for moment in moments], prices


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.source}, {case.header[:18]}")
def test_an_export_is_read_as_it_comes(case: Case, tmp_path: Path) -> None:
    path, begins, prices = write(case, tmp_path)
    series = read_series(path, parse_layout(""))
    step = 4 if case.quarters else 1
    assert series.start_s[::step].tolist() == begins
    assert len(series.start_s) == step * HOURS
    assert series.value[::step].tolist() == pytest.approx([case.factor * price for price in prices])
    assert series.unit == case.unit


def test_each_source_has_its_case() -> None:
    others = {"energy-charts.info", "MISO", "OMIE"}
    assert {case.source for case in CASES} | others == {export.source for export in known_exports()}


def read(tmp_path: Path, text: str, layout: str = "", name: str = "p.csv") -> Series:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_series(path, parse_layout(layout))


def test_energy_charts_as_csv_and_as_json(tmp_path: Path) -> None:
    rows = "2024-10-26T00:00+02:00,40.25\n2024-10-26T01:00+02:00,-3\n"
    text = f'"Datum (GMT+1)","Day Ahead Auktion (DE-LU)"\n"","Preis (EUR/MWh, EUR/tCO2)"\n{rows}'
    answer = {"license_info": "x", "unix_seconds": [1729893600, 1729897200], "price": [40.25, -3], "unit": "EUR / MWh"}
    for series in (read(tmp_path, text), read(tmp_path, json.dumps(answer), name="p.json")):
        assert series.start_s.tolist() == answer["unix_seconds"]
        assert series.value.tolist() == answer["price"]
        assert series.unit == "EUR/MWh"


def test_times_of_nyiso_are_ends_in_real_time_only(tmp_path: Path) -> None:
    head = '"Time Stamp","Name","PTID","LBMP ($/MWHr)"'
    day = [f"07/26/2026 {5 * number // 60:02}:{5 * number % 60:02}:00" for number in range(1, 288)]
    rows = [f'"{stamp}","N.Y.C.",61761,{number}' for number, stamp in enumerate([*day, "07/27/2026 00:00:00"])]
    series = read(tmp_path, "\n".join([head, *rows, ""]))
    midnight_s = int(datetime(2026, 7, 26, 4, tzinfo=UTC).timestamp())
    assert series.start_s.tolist() == [midnight_s + 300 * number for number in range(288)]
    assert series.end_s == midnight_s + DAY_S
    rows.insert(2, '"07/26/2026 00:13:21","N.Y.C.",61761,99')
    series = read(tmp_path, "\n".join([head, *rows, ""]))
    assert (series.start_s[:4] - midnight_s).tolist() == [0, 300, 600, 801], "a dispatch between the usual ones"
    assert series.value[:4].tolist() == [0, 1, 99, 2]


def test_text_of_excel_is_read(tmp_path: Path) -> None:
    rows = ["Zeit\tPreis (EUR/MWh)", "26.10.2024 00:00\t\u22121,25", "26.10.2024 01:00\t2,5"]
    path = tmp_path / "p.txt"
    path.write_text("\r\n".join([*rows, ""]), encoding="utf-16")
    assert read_series(path, parse_layout("zone=Europe/Berlin")).value.tolist() == [-1.25, 2.5]


TIMES = ("2024-10-26T00:00Z", "2024-10-26T01:00Z")


def table(header: str, *rows: str) -> str:
    return "\n".join([header, *(f"{time},{row}" for time, row in zip(TIMES, rows, strict=True)), ""])


@pytest.mark.parametrize(
    ("header", "layout", "taken"),
    [
        ("utc,hour,weekday,price", "unit=EUR/MWh", "price"),
        ("utc,load,temperature,DE_LU_price_day_ahead,price_forecast", "unit=EUR/MWh", "DE_LU_price_day_ahead"),
        ("utc,SpotPriceDKK,SpotPriceEUR,hour", "unit=EUR/MWh", "SpotPriceEUR"),
        ("utc,SpotPriceDKK,SpotPriceEUR,hour", "unit=DKK/MWh", "SpotPriceDKK"),
        ("utc,month,value", "unit=EUR/MWh", "value"),
        ("utc,load,MCP [EUR/MWh]", "", "MCP [EUR/MWh]"),
    ],
)
def test_the_column_of_prices_is_known_by_its_name(tmp_path: Path, header: str, layout: str, taken: str) -> None:
    names = header.split(",")
    numbers = [",".join(str(10 * at + row) for at in range(1, len(names))) for row in (0, 1)]
    series = read(tmp_path, table(header, *numbers), layout)
    at = 10 * names.index(taken)
    assert series.value.tolist() == [at, at + 1]
    assert series.source == f"p.csv, column {taken}"


@pytest.mark.parametrize(
    ("header", "layout", "message"),
    [
        ("utc,price_a,price_b", "unit=EUR/MWh", "holds more than one price: 'price_a', 'price_b'"),
        ("utc,load,hour", "unit=EUR/MWh", "no.* known to be a price: 'load', 'hour'"),
        ("utc,a,b", "unit=EUR/MWh", "more than one price: 'a', 'b'"),
        ("utc,SpotPriceDKK,hour", "unit=EUR/MWh", "the column 'SpotPriceDKK' is not in EUR/MWh"),
        ("utc,Price [ct/kWh],hour", "unit=EUR/MWh", r"the column 'Price \[ct/kWh\]' is not in EUR/MWh"),
        ("utc,Price (USD/MWh),hour", "unit=EUR/MWh", "is not in EUR/MWh, which is declared"),
    ],
)
def test_no_column_is_guessed(tmp_path: Path, header: str, layout: str, message: str) -> None:
    with pytest.raises(BadPrices, match=message):
        read(tmp_path, table(header, "1,2", "3,4"), layout)


def test_a_unit_in_the_rows_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match="the unit is not known"):
        read(tmp_path, table("utc,price,unit", "1,{0}/MWh", "2,{0}/MWh"))


def test_a_file_of_another_quantity_needs_no_name_of_a_price(tmp_path: Path) -> None:
    path = tmp_path / "sun.csv"
    path.write_text(table("utc,hour,solar radiation", "0,10", "1,20"), encoding="utf-8")
    assert read_series(path, parse_layout(""), unit="W/m2").value.tolist() == [10, 20]
    path.write_text(table("utc,ghi,dni", "0,10", "1,20"), encoding="utf-8")
    with pytest.raises(BadPrices, match="more than one column of values: 'ghi', 'dni'"):
        read_series(path, parse_layout(""), unit="W/m2")


def test_rows_of_several_places_are_asked_for(tmp_path: Path) -> None:
    rows = [f"{time},{area},{price}" for time in TIMES for area, price in (("DK1", 10), ("DK2", 20))]
    text = "\n".join(["utc,area,price", *rows, ""])
    with pytest.raises(BadPrices, match="rows of several places or kinds in the column 'area': DK1, DK2") as problem:
        read(tmp_path, text, "unit=EUR/MWh")
    assert problem.value.hint == "say which: area=DK1"
    assert read(tmp_path, text, "unit=EUR/MWh,area=DK2").value.tolist() == [20, 20]
    with pytest.raises(BadPrices, match="no row is of 'DK3'"):
        read(tmp_path, text, "unit=EUR/MWh,area=DK3")


def test_the_line_of_a_row_is_that_of_the_file(tmp_path: Path) -> None:
    text = (
        "utc,area,price\n\n2024-10-26T01:00Z,a,1\n2024-10-26T01:00Z,b,x\n2024-10-26T00:00Z,a,2\n2024-10-26T00:00Z,b,3\n"
    )
    with pytest.raises(BadPrices, match=r"p\.csv:4: price is 'x'"):
        read(tmp_path, text, "unit=EUR/MWh,area=b")


@pytest.mark.parametrize(
    ("dates", "begin"),
    [
        (("1/11/2024 00:00", "2/11/2024 00:00"), datetime(2024, 11, 1)),
        (("11/1/2024 00:00", "11/2/2024 00:00"), datetime(2024, 11, 1)),
        (("13/11/2024 00:00", "14/11/2024 00:00"), datetime(2024, 11, 13)),
        (("11/13/2024 00:00", "11/14/2024 00:00"), datetime(2024, 11, 13)),
        (("1.11.2024 00:00", "2.11.2024 00:00"), datetime(2024, 11, 1)),
        (("29/2/2024 12:00 AM", "29/2/2024 12:00 PM"), datetime(2024, 2, 29)),
    ],
)
def test_day_and_month_are_told_apart(tmp_path: Path, dates: tuple[str, str], begin: datetime) -> None:
    series = read(tmp_path, f"utc,price\n{dates[0]},1\n{dates[1]},2\n", "unit=EUR/MWh,zone=UTC")
    assert series.start_s[0] == begin.replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (("1/2/2024 00:00", "1/2/2024 01:00"), "day and the month cannot be told apart"),
        (("30/2/2024 00:00", "30/2/2024 01:00"), "the time '30/2/2024 00:00' cannot be read"),
        (("1.2.2024 00:00", "1.2.2024 25:00"), "the time '1.2.2024 25:00' cannot be read"),
        (("0001-01-01 00:00", "0001-01-01 01:00"), "'0001-01-01 00:00' is not a plausible time of a price"),
        (("0001/01/01 00:00", "0001/01/01 01:00"), "'0001/01/01 00:00' is not a plausible time of a price"),
        (("9999-12-31 22:00Z", "9999-12-31 23:00Z"), "'9999-12-31 22:00Z' is not a plausible time of a price"),
    ],
)
def test_a_date_that_is_none_or_two_is_refused(tmp_path: Path, dates: tuple[str, str], message: str) -> None:
    with pytest.raises(BadPrices, match=message):
        read(tmp_path, f"utc,price\n{dates[0]},1\n{dates[1]},2\n", "unit=EUR/MWh,zone=UTC")


@pytest.mark.parametrize("text", ["{}", "[]", "[1, 2]", '{"a": 1}', '{"a": [1], "b": [1, 2]}', "{"])
def test_json_without_records_is_one_short_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadPrices, match="JSON") as problem:
        read(tmp_path, text + " " * 6000, name="p.json")
    assert len(str(problem.value)) < 400


def miso_report(date: str) -> str:
    hours = ",".join(f"HE {hour}" for hour in range(1, 25))
    rows = [
        f"{node},Hub,{value},{','.join(str(first + hour) for hour in range(24))}"
        for node, value, first in (("AECI", "LMP", 500), ("INDIANA.HUB", "LMP", 40), ("INDIANA.HUB", "MCC", 0))
    ]
    clock = ",,,All Hours-Ending are Eastern Standard Time (EST)"
    return "\n".join(["Day Ahead Market ExPost LMPs", date, "", clock, f"Node,Type,Value,{hours}", *rows, ""])


def test_reports_of_miso_have_the_standard_time_of_summer_too(tmp_path: Path) -> None:
    text = miso_report("11/02/2024") + miso_report("11/03/2024")
    series = read(tmp_path, text, "area=INDIANA.HUB")
    first_s = int(datetime(2024, 11, 2, 5, tzinfo=UTC).timestamp())
    assert series.start_s.tolist() == [first_s + 3600 * hour for hour in range(48)]
    assert series.value.tolist() == [*range(40, 64), *range(40, 64)]
    assert series.unit == "USD/MWh"
    with pytest.raises(BadPrices, match=r"'Node': AECI, INDIANA\.HUB"):
        read(tmp_path, text)


def omie_report(day: str, periods: int, *, dearer_in_portugal: int = 0) -> str:
    rows = [f"{day};{number};{number + dearer_in_portugal}.5;{number}.5;" for number in range(1, periods + 1)]
    return "\n".join(["MARGINALPDBC;", *rows, "*", ""])


@pytest.mark.parametrize(("periods", "step_s"), [(25, 3600), (100, 900)])
def test_periods_of_omie_are_counted_over_the_change_of_the_clock(tmp_path: Path, periods: int, step_s: int) -> None:
    series = read(tmp_path, omie_report("2025;10;26", periods))
    first_s = int(datetime(2025, 10, 25, 22, tzinfo=UTC).timestamp())
    assert series.start_s.tolist() == [first_s + step_s * number for number in range(periods)]
    assert series.value.tolist() == [number + 0.5 for number in range(1, periods + 1)]
    split = omie_report("2025;10;26", periods, dearer_in_portugal=1)
    with pytest.raises(BadPrices, match="more than one price: 'Spain"):
        read(tmp_path, split)
    assert read(tmp_path, split, "value=Portugal").value[0] == 2.5
    with pytest.raises(BadPrices, match="2025-10-26 has 30 periods"):
        read(tmp_path, omie_report("2025;10;26", 30))


@pytest.mark.parametrize(
    ("header", "first", "second", "layout", "prices"),
    [
        ("utc;price", "1.040,25", "40,5", "unit=EUR/MWh", [1040.25, 40.5]),
        ("utc;price", "1.040", "40,5", "unit=EUR/MWh", [1040, 40.5]),
        ("utc;price;x", "1.040;1,5", "2.040;2,5", "unit=EUR/MWh,value=price", [1040, 2040]),
        ("utc;price", "1 040,25", "40,5", "unit=EUR/MWh", [1040.25, 40.5]),
        ("utc|price", "40.25", "41.5", "unit=EUR/MWh", [40.25, 41.5]),
        ("utc;Preis (Cent/kWh)", "4,5", "5,5", "", [45, 55]),
        ("utc;SEK_per_kWh;EUR_per_kWh", "0,5;0,05", "0,6;0,06", "unit=SEK/kWh", [500, 600]),
        ("utc;price;unit", "4,5;ct/kWh", "5,5;ct/kWh", "", [45, 55]),
        ("utc;price;currency", "4,5;NOK", "5,5;NOK", "unit=NOK/MWh", [4.5, 5.5]),
        ("utc;lbCO2/MWh", "100", "200", "", [45.359237, 90.718474]),
        ("utc;co2 (kgCO2eq/kWh)", "0,4", "0,5", "", [400, 500]),
    ],
)
def test_numbers_and_units_as_files_write_them(
    tmp_path: Path, header: str, first: str, second: str, layout: str, prices: list[float]
) -> None:
    separator = header[3]
    text = "\n".join([header, *(f"{time}{separator}{row}" for time, row in zip(TIMES, (first, second), strict=True))])
    assert read(tmp_path, text, layout).value.tolist() == pytest.approx(prices)


@pytest.mark.parametrize(
    ("header", "first", "second", "layout", "message"),
    [
        ("utc;price", "1.040", "950", "unit=EUR/MWh", "may have decimals or thousands: 1.040"),
        ("utc;price", "1.040", "2.950", "unit=EUR/MWh", "may have decimals or thousands: 1.040, 2.950"),
        ("utc,price", '"1,040"', '"2,950"', "unit=EUR/MWh", "may have decimals or thousands: 1,040, 2,950"),
        ("utc;price", "40,25", "41.25", "unit=EUR/MWh", "may have decimals or thousands"),
        ("utc;Price c/kWh", "4", "5", "unit=EUR/MWh", "'Price c/kWh' is not in EUR/MWh"),
        ("utc;Price ctUSD/kWh", "4", "5", "unit=USD/kWh", "'Price ctUSD/kWh' is not in USD/kWh"),
        ("utc;Eurocent/kWh", "4", "5", "unit=EUR/kWh", "'Eurocent/kWh' is not in EUR/kWh"),
        ("utc;pris (ore/kWh)", "4", "5", "", "the unit is that of more than one currency"),
        ("utc;pris kr/MWh", "4", "5", "unit=EUR/MWh", "'pris kr/MWh' is not in EUR/MWh"),
        ("utc;price_dkk", "4", "5", "unit=EUR/MWh", "'price_dkk' is not in EUR/MWh"),
        ("utc;price_eur_kwh", "4", "5", "unit=EUR/MWh", "'price_eur_kwh' is not in EUR/MWh"),
        ("utc;price;unit", "4;EUR/kWh", "5;EUR/kWh", "unit=EUR/MWh", "'EUR/kWh' in the column 'unit' is not in"),
        ("utc;price;currency", "4;EUR", "5;DKK", "unit=EUR/MWh", "'DKK' in the column 'currency' is not in EUR/MWh"),
        ("utc;LMP mills/kWh", "4", "5", "unit=USD/kWh", "is neither per kWh nor per MWh of a currency"),
        ("utc;price k€/MWh", "4", "5", "", "is neither per kWh nor per MWh of a currency"),
        ("utc;price EUR/GJ", "4", "5", "unit=EUR/MWh", "is neither per kWh nor per MWh of a currency"),
        ("utc;price €/100kWh", "4", "5", "unit=EUR/kWh", "is neither per kWh nor per MWh of a currency"),
        ("utc;price", "-9999", "5", "unit=EUR/MWh", "p.csv:2: -9999 stands for no value"),
        ("utc;co2 (t/MWh)", "4", "5", "unit=g/kWh", r"'co2 \(t/MWh\)' is not in g/kWh"),
    ],
)
def test_a_unit_or_a_number_that_may_be_another_is_refused(
    tmp_path: Path, header: str, first: str, second: str, layout: str, message: str
) -> None:
    separator = header[3]
    text = "\n".join([header, *(f"{time}{separator}{row}" for time, row in zip(TIMES, (first, second), strict=True))])
    with pytest.raises(BadPrices, match=message):
        read(tmp_path, text, layout)


def test_the_name_of_the_file_and_its_column_name_one_unit(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match=r"the column 'Price \(EUR/MWh\)' is not in EUR/kWh"):
        read(tmp_path, table("utc,Price (EUR/MWh)", "40", "41"), name="p_eur_per_kwh.csv")


@pytest.mark.parametrize(
    ("header", "kinds", "is_refused"),
    [
        ("utc,area,price", ("FR", "DE", "FR", "DE"), True),
        ("utc,sequence,price", ("1", "2", "1", "2"), True),
        ("utc,market,price", ("DAM", "RTM", "DAM", "RTM"), True),
        ("utc,resolution,price", ("PT60M", "PT60M", "PT15M", "PT15M"), False),
        ("utc,weekday,price", ("Fri", "Sat", "Fri", "Sat"), False),
    ],
)
def test_rows_of_two_series_by_turns_are_refused(
    tmp_path: Path, header: str, kinds: tuple[str, ...], is_refused: bool
) -> None:
    text = "\n".join([header, *(f"2024-10-26T0{hour}:00Z,{kind},{hour}" for hour, kind in enumerate(kinds))])
    if not is_refused:
        assert read(tmp_path, text, "unit=EUR/MWh").value.tolist() == [0, 1, 2, 3]
        return
    with pytest.raises(BadPrices, match="several places or kinds"):
        read(tmp_path, text, "unit=EUR/MWh")


def test_times_that_are_ends_or_are_in_two_columns_or_fall_over_a_change_of_the_clock(tmp_path: Path) -> None:
    begins = [datetime(2024, 10, 26, 22, tzinfo=UTC) + number * HOUR for number in range(25)]
    local = [begin.astimezone(BERLIN) for begin in begins]
    zoned = "unit=EUR/MWh,zone=Europe/Berlin"
    marked = [f"{at:%Y-%m-%d %H:%M} {at.tzname()},{number}" for number, at in enumerate(local)]
    numbered = [f"{number},{at:%Y-%m-%d},{at.hour},{number}" for number, at in enumerate(local)]
    ended = [f"{begin + HOUR:%Y-%m-%dT%H:%MZ},{number}" for number, begin in enumerate(begins)]
    clock = [f"{at:%Y-%m-%d},{at:%H:%M},{number}" for number, at in enumerate(local)]
    naive = [f"{at:%Y-%m-%d %H:%M},{number}" for number, at in enumerate(local)]
    for header, rows, layout in (
        ("time,price", marked, "unit=EUR/MWh"),
        (",date,hour,price", numbered, zoned),
        ("interval_end,price", ended, "unit=EUR/MWh"),
        ("date,time,price", clock, zoned),
        ("time,price", naive[::-1], zoned),
    ):
        series = read(tmp_path, "\n".join([header, *rows]), layout)
        assert series.start_s.tolist() == [int(begin.timestamp()) for begin in begins], header
        assert series.value.tolist() == list(range(25)), header
