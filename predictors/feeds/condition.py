"""What can be wrong with an answer of a feed, each with its name and with what the operator may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from offpeak.installation import install_hint


class Condition(StrEnum):
    """The named conditions; the value is how people read them."""

    NO_KEY = "no key"
    KEY_REFUSED = "key refused"
    NOT_INSTALLED = "not installed"
    NO_NETWORK = "no network"
    REFUSED = "connection refused"
    UNTRUSTED = "certificate not trusted"
    HANGING = "no answer in time"
    UNAVAILABLE = "service unavailable"
    TOO_MANY = "too many requests"
    GARBAGE = "unreadable answer"
    UNREADABLE_FILE = "unreadable file"
    WRONG_ZONE = "wrong zone"
    WRONG_AUCTION = "wrong auction"
    WRONG_CURRENCY = "wrong currency or unit"
    SHIFTED_CLOCK = "local time stamped as UTC"
    IMPLAUSIBLE = "implausible values"
    HALF_MISSING = "values missing"
    NOT_YET_PUBLISHED = "not yet published"
    TOO_OLD = "known prices too old to forecast from"
    CACHE_DAMAGED = "cache damaged"
    CACHE_UNWRITABLE = "cache cannot be written"


HINTS: Mapping[Condition, str] = MappingProxyType(
    {
        Condition.NO_KEY: "put the key into the file that feeds.key_file names, and `chmod 600` it",
        Condition.KEY_REFUSED: "ask the service for a new key, or for this zone in your plan",
        Condition.NOT_INSTALLED: "install what the message names",
        Condition.NO_NETWORK: "check the cable, the name server and https_proxy; try `curl -I` to the host",
        Condition.REFUSED: "check the firewall and the address; try `curl -I` to the host",
        Condition.UNTRUSTED: "set REQUESTS_CA_BUNDLE to the certificates of your proxy, and check this machine's date",
        Condition.HANGING: "it is asked again later; raise feeds.timeout if that is usual",
        Condition.UNAVAILABLE: "it is asked again later; name a second source in [feeds]",
        Condition.TOO_MANY: "it is asked again when the service allows it; does another program use the same key?",
        Condition.GARBAGE: "open the address in a browser: a login page or a changed interface?",
        Condition.UNREADABLE_FILE: "correct the file that the message names",
        Condition.WRONG_ZONE: "check feeds.zone and feeds.place",
        Condition.WRONG_AUCTION: "compare with the exchange's page; if the cache is what is wrong, remove its file",
        Condition.WRONG_CURRENCY: "set feeds.currency to what the source answers in",
        Condition.SHIFTED_CLOCK: "use another source until this one is put right; tell its operator",
        Condition.IMPLAUSIBLE: "compare with the exchange's page; use another source until this one is put right",
        Condition.HALF_MISSING: "name a second source in [feeds]; the hours that are missing are forecast",
        Condition.NOT_YET_PUBLISHED: "nothing: it is asked again soon",
        Condition.TOO_OLD: "append newer prices; --from the day on which they end forecasts from there",
        Condition.CACHE_DAMAGED: "nothing: the next good answer replaces it",
        Condition.CACHE_UNWRITABLE: "let the service's user write to feeds.cache; try `df` and `ls -ld` there",
    }
)

INCOMPLETE = frozenset({Condition.HALF_MISSING, Condition.NOT_YET_PUBLISHED})
"""What leaves the values that are there usable."""


@dataclass(frozen=True)
class Trouble:
    """One condition of one source: `detail` says what and where, `retry_after_s` how long the service wants peace.

    `extra` is what has to be installed, "" if nothing.
    """

    condition: Condition
    source: str
    detail: str
    retry_after_s: int = 0
    extra: str = ""

    @property
    def hint(self) -> str:
        """What to do about it."""
        return install_hint(self.extra) if self.extra else HINTS[self.condition]

    def __str__(self) -> str:
        return f"{self.source}: {self.condition}: {self.detail}"
