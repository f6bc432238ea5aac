"""The settings of feeds: the sources of prices, carbon intensity, outside temperature and forecast inputs."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, NAMES, PATH, TEXT, row


@dataclass(frozen=True)
class FeedSettings:
    """Sources of values while the agent runs, in order: if one fails, the next is used."""

    prices: tuple[str, ...] | None = row(
        NAMES,
        "Sources of known prices, in order: energy-charts, nord-pool, entso-e, us-markets, or file and tariff as set "
        "in [prices].",
        example=("energy-charts", "nord-pool"),
        flag="--price-feeds",
    )
    carbon: tuple[str, ...] | None = row(
        NAMES,
        "Sources of carbon intensity, in order: electricity-maps, or file as set in [carbon].",
        example=("electricity-maps",),
        flag="--carbon-feeds",
    )
    temperature: tuple[str, ...] | None = row(
        NAMES,
        "Sources of the outside temperature, in order: open-meteo, open-meteo-archive.",
        example=("open-meteo",),
        flag="--temperature-feeds",
    )
    inputs: tuple[str, ...] | None = row(
        NAMES,
        "Inputs of the price forecast, each on its own: entso-e-load, entso-e-wind-solar, open-meteo-wind, "
        "open-meteo-sun.",
        example=("entso-e-load", "entso-e-wind-solar"),
        flag="--input-feeds",
    )
    zone: str | None = row(
        TEXT,
        "Bidding zone, such as DE-LU, or American market and place, such as CAISO/TH_NP15_GEN-APND.",
        example="DE-LU",
    )
    currency: str = row(
        TEXT,
        "Currency of the prices; a response in another currency is refused.",
        default="EUR",
        flag="--feed-currency",
    )
    place: str | None = row(
        TEXT,
        "Location of the machine in degrees north and east, for its weather.",
        example="52.52,13.41",
        flag="--feed-place",
    )
    key_file: Path | None = row(
        PATH,
        "File of mode 0600 with lines ENTSOE_API_KEY=... and ELECTRICITY_MAPS_TOKEN=...; environment variables take "
        "precedence.",
        example="/etc/offpeak/keys",
        flag="--feed-keys",
    )
    cache: Path = row(
        PATH,
        "Folder for the last valid series of each source.",
        default="/var/cache/offpeak/feeds",
        flag="--feed-cache",
    )
    timeout_s: int = row(DURATION, "Time limit for a whole response of a source.", default="20s", flag="--feed-timeout")
