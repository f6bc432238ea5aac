"""The settings of feeds: where known prices, carbon intensity and outside temperature come from."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, NAMES, PATH, TEXT, row


@dataclass(frozen=True)
class FeedSettings:
    """Where values come from while the agent runs: sources in order, the next where one fails."""

    prices: tuple[str, ...] | None = row(
        NAMES,
        "--price-feeds",
        "Sources of known prices, in order: energy-charts, nord-pool, entso-e, us-markets, or file and tariff, which"
        " are those of [prices].",
        example=("energy-charts", "nord-pool"),
    )
    carbon: tuple[str, ...] | None = row(
        NAMES,
        "--carbon-feeds",
        "Sources of carbon intensity, in order: electricity-maps, or file, which is that of [carbon].",
        example=("electricity-maps",),
    )
    temperature: tuple[str, ...] | None = row(
        NAMES,
        "--temperature-feeds",
        "Sources of the outside temperature, in order: open-meteo, open-meteo-archive.",
        example=("open-meteo",),
    )
    zone: str | None = row(
        TEXT,
        "--zone",
        "Bidding zone, such as DE-LU, or American market and place, such as CAISO/TH_NP15_GEN-APND.",
        example="DE-LU",
    )
    currency: str = row(
        TEXT,
        "--feed-currency",
        "Currency of the prices; an answer in another is refused.",
        default="EUR",
    )
    place: str | None = row(
        TEXT,
        "--feed-place",
        "Where the machine stands, in degrees north and east: for the outside temperature.",
        example="52.52,13.41",
    )
    key_file: Path | None = row(
        PATH,
        "--feed-keys",
        "File of mode 0600 with lines ENTSOE_API_KEY=... and ELECTRICITY_MAPS_TOKEN=...; the environment wins over it.",
        example="/etc/offpeak/keys",
    )
    cache: Path = row(
        PATH,
        "--feed-cache",
        "Folder of the last good series.",
        default="/var/cache/offpeak/feeds",
    )
    timeout_s: int = row(
        DURATION,
        "--feed-timeout",
        "How long a source may take for one whole answer.",
        default="20s",
    )
