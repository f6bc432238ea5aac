"""Lets these tests import the nodes of the power loop's tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "power" / "live"))
