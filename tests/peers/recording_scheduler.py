"""A scheduler in memory, for tests of those who tell schedulers something."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from offpeak.errors import SchedulerError
from offpeak.model.orders import NodeChange
from offpeak.plugin.scheduler.port import NodeUses, Ranking, RequeuePermit, SchedulerTraits, SchedulerView

NOTHING = SchedulerView(0, (), (), ())


@dataclass
class RecordingScheduler:
    """A scheduler that shows what it is given, keeps what it is told, and refuses what is in `refuses`."""

    changes_lists: ClassVar[bool] = True

    reported: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    shows: SchedulerView = NOTHING
    error: SchedulerError | None = None
    requested: int = 0
    permits: dict[str, RequeuePermit] = field(default_factory=dict)

    def traits(self) -> SchedulerTraits:
        return SchedulerTraits("heard", "1", Ranking.VALUE, power_saving=True, boot_s=60, shared_nodes=False)

    def view(self) -> SchedulerView:
        self.requested += 1
        if self.error:
            raise self.error
        return self.shows

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        return dict.fromkeys(nodes, "nobody may be switched off here")

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        return self._hear("rank", dict(values))

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        return self._hear("defer", dict(begin_s))

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        return {job: self.permits[job] for job in jobs if job in self.permits}

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        return self._hear("signal", dict(signals))

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        return self._hear("requeue", dict.fromkeys(names))

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        return self._hear("notify", dict(comments))

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        return self._hear("start_cycle", dict.fromkeys(jobs))

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        return self._hear(change, dict.fromkeys(nodes, reason))

    def _hear(self, what: str, subjects: Mapping[str, object]) -> dict[str, str]:
        self.reported.append((what, subjects))
        return {subject: self.refuses[subject] for subject in subjects if subject in self.refuses}
