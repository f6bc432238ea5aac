"""How far the door is open for what concerns a partition: the setting's mode, or one of the partition's own."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from offpeak.door.effect import Mode
from offpeak.errors import BadSetting
from offpeak.settings.agent import AgentSettings
from offpeak.text import did_you_mean

OPENNESS = (Mode.SHADOW, Mode.ADVISE, Mode.ACTIVE)


@dataclass(frozen=True)
class Modes:
    """`usual` holds for partitions that are not in `own`."""

    usual: Mode
    own: Mapping[str, Mode]

    def of(self, partitions: Iterable[str]) -> Mode:
        """Return the least open mode of these partitions, the usual one where there are none."""
        modes = [self.own.get(each, self.usual) for each in partitions] or [self.usual]
        return min(modes, key=OPENNESS.index)

    @property
    def most_open(self) -> Mode:
        """The most open mode of any partition."""
        return max((self.usual, *self.own.values()), key=OPENNESS.index)

    def narrowed(self, other: "Modes") -> "Modes":
        """Return of each partition the less open mode of both."""
        return self._merged(other, lambda *modes: min(modes, key=OPENNESS.index))

    def widened(self, other: "Modes") -> "Modes":
        """Return of each partition the more open mode of both."""
        return self._merged(other, lambda *modes: max(modes, key=OPENNESS.index))

    def _merged(self, other: "Modes", choose: Callable[[Mode, Mode], Mode]) -> "Modes":
        own = {each: choose(self.of((each,)), other.of((each,))) for each in (*self.own, *other.own)}
        return Modes(choose(self.usual, other.usual), own)


def modes_of(settings: AgentSettings) -> Modes:
    """Return the modes of the settings; BadSetting for a partition without one, or with one that there is not."""
    return Modes(Mode(settings.mode), dict(map(_pair, settings.partition_modes or ())))


def _pair(text: str) -> tuple[str, Mode]:
    partition, _, mode = text.partition("=")
    if not partition or mode not in tuple(Mode):
        hint = did_you_mean(mode, tuple(Mode)) if mode else 'write it like ["debug=shadow"]'
        raise BadSetting(f"agent.partition_modes: {text!r} names no partition and its mode", hint=hint)
    return partition, Mode(mode)
