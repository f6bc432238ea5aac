"""What a report of a month is about."""

from dataclasses import dataclass
from datetime import tzinfo

from services.accounts.counterfactual import Counterfactual
from services.accounts.month_account import MonthAccount
from ui.month.lines import Line
from ui.month.month import Month


@dataclass(frozen=True)
class MonthSubject:
    """A month, its account, and what the site's own order would have cost; None, and why it is not known."""

    month: Month
    zone: tzinfo
    account: MonthAccount
    without: Counterfactual | None
    why_not: str
    lines: tuple[Line, ...]
