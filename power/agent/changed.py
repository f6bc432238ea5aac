"""Which decisions are worth writing: those that say of something other than was said of it before."""

from collections.abc import Collection, Iterable

from offpeak.ledger.rows import Decision


class Changed:
    """Remembers what was decided last of each subject: `latest`, by subject."""

    def __init__(self) -> None:
        self.latest: dict[str, Decision] = {}

    def of(self, decisions: Iterable[Decision], alive: Collection[str]) -> tuple[Decision, ...]:
        """Return those that are news; subjects that are not `alive` any more are forgotten."""
        new = tuple(each for each in decisions if _said(each) != _said(self.latest.get(each.subject)))
        latest = self.latest | {each.subject: each for each in new}
        self.latest = {subject: each for subject, each in latest.items() if subject in alive}
        return new


def _said(decision: Decision | None) -> tuple[str, str] | None:
    # Behind the semicolon stands until when, which moves on with the clock.
    return None if decision is None else (decision.decided, decision.reason.partition(";")[0])
