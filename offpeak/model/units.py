"""The one place where text with a unit ("1.2kW", "30min", "90EUR/MWh") becomes a number, and the way back."""

import math
import re
from collections.abc import Mapping

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.text import did_you_mean

POWER_W = {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9}
DURATION_S = {"s": 1, "min": MINUTE_S, "h": HOUR_S, "d": DAY_S}
MEMORY_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
LATENCY_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# Links are sold in bits, and data counted in bytes.
BANDWIDTH_MB_PER_S = {"Mbit/s": 1 / 8, "Gbit/s": 125.0, "MB/s": 1.0, "GB/s": 1000.0}
DATA_MB = {"MB": 1.0, "GB": 1e3, "TB": 1e6, "PB": 1e9}
KG_PER_LB = 0.45359237
CARBON_G_PER_KWH = {
    "g/kWh": 1.0, "kg/MWh": 1.0, "kg/kWh": 1e3, "t/MWh": 1e3, "lb/MWh": KG_PER_LB, "lb/kWh": 1e3 * KG_PER_LB,
}  # fmt: skip
CARBON_SPELLING = re.compile(r"(kg|g|t|lb)s? ?(?:CO[2₂](?:eq?|-eq)?)?/")
"""How the mass of CO2 is also written: gCO2eq/kWh, lbs/MWh."""
ENERGY_KWH = {"kWh": 1.0, "MWh": 1e3}
PER_MWH = {"MWh": 1.0, "kWh": 1e3}
HUNDREDTHS = {"ct": "EUR", "cent": "EUR", "p": "GBP", "pence": "GBP", "öre": "SEK"}
"""Hundredth parts of a currency that need not be named: cents of the euro, pence, and Swedish öre."""
UNCLEAR_HUNDREDTHS = ("c", "¢", "cents", "øre", "ore", "oere")
"""Hundredth parts of more than one currency, such as the dollars, and the Danish and the Norwegian krone."""

HIGHEST_POWER_W = 100e9
HIGHEST_NODE_W = 1e6
HIGHEST_CARBON_G_PER_KWH = 10_000.0
LONGEST_S = 100 * 36_525 * 864
HIGHEST_PER_MWH = 1e5
"""More than a MWh ever cost in EUR, USD, GBP or CHF, balancing energy included: rather a wrong unit."""
HIGHEST_OF_OTHERS_PER_MWH = 1e9
CURRENCIES = frozenset(
    re.findall(
        "[A-Z]{3}",
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF "
        "CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL "
        "HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD "
        "MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG "
        "QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD "
        "TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF XXX YER ZAR ZMW ZWG ",
    )
)
"""The codes of ISO 4217, with XXX for none."""
COMMON_PRICE_UNITS = tuple(f"{currency}/{per}" for currency in ("EUR", "USD", "GBP", "CHF") for per in PER_MWH)

_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")
_DEMAND_UNIT = re.compile(r"([A-Za-z]{3})/([kM]W)")
_PRICE_UNIT = re.compile(rf"(ct)?([A-Za-z]{{3}})/({'|'.join(PER_MWH)})")


def parse_power_w(text: str) -> float:
    """Return "1.2kW" as 1200.0 [W]. Raises BadInput for a bare number, an unknown unit, a negative or absurd power."""
    power_w = _amount(text, POWER_W, example="250W or 1.2kW")
    return _at_most(power_w, HIGHEST_POWER_W, text, "100 GW, more than any site draws")


def parse_node_power_w(text: str) -> float:
    """Return the draw of one node [W]. Raises BadInput like `parse_power_w`, and above one megawatt."""
    return _at_most(parse_power_w(text), HIGHEST_NODE_W, text, "1 MW, more than any node draws")


def parse_energy_kwh(text: str) -> float:
    """Return "1.2MWh" as 1200.0 [kWh]. Raises BadInput as for a power."""
    return _amount(text, ENERGY_KWH, example="500kWh or 1.2MWh")


def parse_duration_s(text: str) -> int:
    """Return "30min" as 1800 [s]. Raises BadInput as for a power, and where it is no whole number of seconds."""
    seconds = _amount(text, DURATION_S, example="30min or 2h")
    if seconds != round(seconds):
        raise BadInput(f"{text!r} is not a whole number of seconds", hint="give it in s, such as 90s")
    return round(_at_most(seconds, LONGEST_S, text, "100 years"))


def parse_memory_mib(text: str) -> int:
    """Return "1.5GiB" as 1536 [MiB]. Raises BadInput as for a power, and where it is no whole number of MiB."""
    memory = _amount(text, MEMORY_MIB, example="256GiB")
    if memory != round(memory):
        raise BadInput(f"{text!r} is not a whole number of MiB", hint="give it in MiB, such as 515000MiB")
    return round(memory)


def parse_latency_s(text: str) -> float:
    """Return "12ms" as 0.012 [s]."""
    return _amount(text, LATENCY_S, example="12ms")


def parse_bandwidth_mb_per_s(text: str) -> float:
    """Return "10Gbit/s" as 1250.0 [MB/s]. Raises BadInput for nothing at all."""
    bandwidth = _amount(text, BANDWIDTH_MB_PER_S, example="10Gbit/s or 500MB/s")
    if bandwidth == 0:
        raise BadInput(f"{text!r} lets nothing through", hint="leave the link out if there is none")
    return bandwidth


def parse_data_mb(text: str) -> float:
    """Return "20GB" as 20000.0 [MB]."""
    return _amount(text, DATA_MB, example="20GB")


def parse_price(text: str) -> tuple[float, str]:
    """Return "0.09EUR/kWh" as (90.0, "EUR") [EUR/MWh]; a price may be negative."""
    number, unit = _number_and_unit(text, example="90EUR/MWh")
    name, factor = parse_price_unit(unit)
    price = _known(number * factor, text)
    if abs(price) > highest_value(name):
        raise BadInput(f"{text!r} is not a plausible price", hint=plausible_range(name))
    return price, name.split("/")[0]


def parse_demand_price(text: str) -> tuple[float, str]:
    """Return "120EUR/kW" as (120.0, "EUR") [EUR/kW]."""
    number, unit = _number_and_unit(text, example="120EUR/kW")
    match = _DEMAND_UNIT.fullmatch(unit)
    if match is None:
        raise BadInput(f"unknown unit {unit!r}", hint="a demand charge is a price per kW or MW, such as 120EUR/kW")
    per_kw = _not_negative(_known(number / (1000 if match[2] == "MW" else 1), text), text)
    return _at_most(per_kw, HIGHEST_PER_MWH, text, "100,000 for a kW"), match[1].upper()


def highest_value(unit: str) -> float:
    """Return the largest plausible value, and without its sign the smallest, of a series in EUR/MWh, g/kWh, ..."""
    if unit in CARBON_G_PER_KWH:
        return HIGHEST_CARBON_G_PER_KWH
    return HIGHEST_PER_MWH if f"{unit.split('/')[0]}/MWh" in COMMON_PRICE_UNITS else HIGHEST_OF_OTHERS_PER_MWH


def plausible_range(unit: str) -> str:
    """Return a hint with the plausible range of a series."""
    highest = highest_value(unit)
    return f"it lies between {-highest:,.0f} and {highest:,.0f} {unit}: check the value and its unit"


def parse_carbon_g_per_kwh(text: str) -> float:
    """Return "0.4kg/kWh" as 400.0 [g/kWh]."""
    carbon = _amount(text, CARBON_G_PER_KWH, example="400g/kWh")
    return _at_most(carbon, HIGHEST_CARBON_G_PER_KWH, text, "10 kg/kWh, more than any power station emits")


def parse_series_unit(unit: str) -> tuple[str, float]:
    """Return the unit that a series is kept in ("EUR/MWh", "g/kWh") and the factor from `unit` to it."""
    of_carbon = CARBON_SPELLING.sub(r"\1/", unit)
    if of_carbon in CARBON_G_PER_KWH:
        return "g/kWh", CARBON_G_PER_KWH[of_carbon]
    return parse_price_unit(unit)


def parse_price_unit(unit: str) -> tuple[str, float]:
    """Return "eur/kWh" as ("EUR/MWh", 1000.0), "ct/kWh" as euro cents, "ctUSD/kWh" as cents of the dollar.

    Raises BadInput for other units.
    """
    name, _, per = unit.partition("/")
    if name in HUNDREDTHS and per in PER_MWH:
        return f"{HUNDREDTHS[name]}/MWh", PER_MWH[per] / 100
    match = _PRICE_UNIT.fullmatch(unit)
    if match is None or match[2].upper() not in CURRENCIES:
        hint = did_you_mean(unit, (*COMMON_PRICE_UNITS, "ct/kWh", "p/kWh", *CARBON_G_PER_KWH))
        if name.lower() in UNCLEAR_HUNDREDTHS:
            hint = "a hundredth of which currency? write ct before its code: ctUSD/kWh, ctDKK/kWh"
        raise BadInput(f"unknown unit {unit!r}", hint=hint)
    return f"{match[2].upper()}/MWh", PER_MWH[match[3]] / (100 if match[1] else 1)


def _amount(text: str, factors: Mapping[str, float], *, example: str) -> float:
    number, unit = _number_and_unit(text, example=example)
    if unit not in factors:
        raise BadInput(f"unknown unit {unit!r}", hint=did_you_mean(unit, factors))
    return _not_negative(_known(number * factors[unit], text), text)


def _number_and_unit(text: str, *, example: str) -> tuple[float, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r} is not a number with a unit", hint=f"write it like {example}")
    if not match[2]:
        raise BadInput(f"{text!r} has no unit", hint=f"write it like {example}")
    return float(match[1]), match[2]


def _known(number: float, text: str) -> float:
    if not math.isfinite(number):
        raise BadInput(f"{text!r} is too large", hint="check the number and its unit")
    return number


def _at_most(number: float, highest: float, text: str, limit: str) -> float:
    if number > highest:
        raise BadInput(f"{text!r} is more than {limit}", hint="check the number and its unit")
    return number


def _not_negative(number: float, text: str) -> float:
    if number < 0:
        raise BadInput(f"{text!r} is negative", hint="give zero or more")
    return number
