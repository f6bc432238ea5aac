"""Sources that the operator declares: a file of prices or of carbon intensity, and a time-of-use rule."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.prices.layout import PriceFileLayout
from offpeak.prices.tariff import Tariff, tariff_series
from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.port import Answer, Window
from predictors.feeds.rows import clipped


@dataclass(frozen=True)
class FileSource:
    """A CSV file, read anew each time: another program may append to it."""

    path: Path
    layout: PriceFileLayout
    name: str = "file"
    own: bool = True

    def fetch(self, window: Window) -> Answer:
        """Return the file's rows inside the window."""
        # What reads files takes 25 MiB, which an agent that has none can do without.
        from offpeak.prices.file import read_series

        try:
            part = clipped(read_series(self.path, self.layout), window)
        except BadInput as error:
            return Trouble(Condition.UNREADABLE_FILE, self.name, f"{error}; {error.hint}")
        return part or Trouble(Condition.NOT_YET_PUBLISHED, self.name, f"{self.path} has no row of that time")


@dataclass(frozen=True)
class TariffSource:
    """A time-of-use rule: known for ever."""

    tariff: Tariff
    name: str = "tariff"
    own: bool = True

    def fetch(self, window: Window) -> Answer:
        """Return the rule's prices over the window."""
        return tariff_series(self.tariff, *window)
