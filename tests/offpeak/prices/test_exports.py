"""Exports of exchanges as they come: each source over a change of its clock, and files where more than one is meant."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from offpeak.errors import BadInput, BadPrices
from offpeak.model.step_series import Series
from offpeak.prices.exports import known_exports
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout

pytestmark = pytest.mark.quick

BERLIN, NEW_YORK, CHICAGO, BRISBANE = map(
    ZoneInfo, ("Europe/Berlin", "America/New_York", "America/Chicago", "Australia/Brisbane")
)
HOUR = timedelta(hours=1)
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
        "NYISO",
        '"Time Stamp","Name","PTID","LBMP ($/MWHr)","Marginal Cost Losses ($/MWHr)"',
        lambda begin, _, price: f'"{begin:%m/%d/%Y %H:%M}","CAPITL",61757,{price},1.5',
        NEW_YORK,
        "USD/MWh",
        from_utc=AMERICA,
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
    path.write_text("\n".join([case.header, *rows, ""]), encoding="utf-8")
    return path, [int(moment.timestamp()) for moment in moments], prices


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.source}, {case.header[:18]}")
def test_an_export_is_read_as_it_comes(case: Case, tmp_path: Path) -> None:
    path, begins, prices = write(case, tmp_path)
    series = read_series(path, parse_layout(""))
    assert series.start_s.tolist() == begins
    assert series.value.tolist() == pytest.approx([case.factor * price for price in prices])
    assert series.unit == case.unit


def test_each_source_has_its_case() -> None:
    assert {case.source for case in CASES} | {"energy-charts.info"} == {export.source for export in known_exports()}


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
    with pytest.raises(BadInput, match=r"unknown unit '\{0\}/MWh'"):
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
    with pytest.raises(BadPrices, match="rows of several places in the column 'area': DK1, DK2") as problem:
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
        (("0001-01-01 00:00", "0001-01-01 01:00"), "'0001-01-01 00:00' is no plausible time of a price"),
        (("0001/01/01 00:00", "0001/01/01 01:00"), "'0001/01/01 00:00' is no plausible time of a price"),
        (("9999-12-31 22:00Z", "9999-12-31 23:00Z"), "'9999-12-31 22:00Z' is no plausible time of a price"),
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
