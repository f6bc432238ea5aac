"""Lets the tests of queue waits import the random logs beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
