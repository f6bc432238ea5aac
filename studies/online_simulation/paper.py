"""What the paper says of its logs, to be put beside ours. Its figures are drawn: there are words, not numbers."""

from dataclasses import dataclass

SLA = 200.0
"""S, the mean slowdown that OLS keeps to."""


@dataclass(frozen=True)
class PaperLog:
    """A log of the paper (section 2 and table 1), and how the name of ours begins.

    `size` is U and `low` is L, in processors. `underused`: machines of which the paper says that its comparisons of
    slowdowns do not hold for them.
    """

    name: str
    begins: str
    jobs: int
    size: int
    low: int
    underused: bool = False


PAPER_LOGS = (
    PaperLog("CTC", "CTC-SP2", 77_222, 512, 308, underused=True),
    PaperLog("KTH", "KTH-SP2", 28_490, 100, 75),
    PaperLog("SDSC-SP2", "SDSC-SP2", 59_725, 128, 110),
    PaperLog("Blue Horizon", "SDSC-BLUE", 243_314, 1152, 922),
)
