"""What a node's offpeak-node answers, as values."""

from dataclasses import dataclass

from offpeak.errors import BadAnswer


@dataclass(frozen=True)
class NodeProbe:
    """What a node is and can do. `boot_id` changes with every boot; `wake_on_lan` are pairs of network card and flags.

    `wake_clock` tells whether its own clock can wake it, `governors` what its processors offer, `governor` what they
    use: several words where they differ.
    """

    version: str
    boot_id: str
    uptime_s: float
    power_states: tuple[str, ...]
    mem_sleep: tuple[str, ...]
    wake_clock: bool
    wake_on_lan: tuple[tuple[str, str], ...]
    governors: tuple[str, ...]
    governor: str

    @property
    def can_stand_by(self) -> bool:
        """Whether kernel and firmware offer suspend to memory (ACPI S3), and not just s2idle."""
        return "mem" in self.power_states and "deep" in self.mem_sleep


@dataclass(frozen=True)
class Governors:
    """What the processors' clocks were governed by before a change, and after it."""

    before: str
    after: str


def probe_of(text: str, who: str) -> NodeProbe:
    """Return what the answer to `probe` says; BadAnswer if it is none."""
    told = pairs_of(text)
    try:
        return NodeProbe(
            version=told["version"],
            boot_id=_not_empty(told["boot_id"]),
            uptime_s=float(told["uptime_s"]),
            power_states=tuple(told["power_states"].split()),
            mem_sleep=tuple(word.strip("[]") for word in told["mem_sleep"].split()),
            wake_clock=told["wake_clock"] == "yes",
            wake_on_lan=tuple(_card(word) for word in told["wake_on_lan"].split()),
            governors=tuple(told["governors"].split()),
            governor=told["governor"],
        )
    except (KeyError, ValueError):
        raise strange(who, text) from None


def governors_of(text: str, who: str) -> Governors:
    """Return what the answer to `governor` says; BadAnswer if it is none."""
    told = pairs_of(text)
    try:
        return Governors(told["before"], told["after"])
    except KeyError:
        raise strange(who, text) from None


def pairs_of(text: str) -> dict[str, str]:
    """Return the lines "key=value" of an answer; others do not count."""
    lines = (line.partition("=") for line in text.splitlines())
    return {key: value.strip() for key, sign, value in lines if sign}


def strange(who: str, text: str) -> BadAnswer:
    """Return the error for an answer that offpeak-node does not give."""
    hint = "is its offpeak-node the one of this release? compare it with deploy/node/offpeak-node"
    return BadAnswer(f"{who}: a strange answer: {text[:60]!r}", hint=hint)


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _card(word: str) -> tuple[str, str]:
    name, _, flags = word.rpartition(":")
    return name, flags
