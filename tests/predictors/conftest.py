"""Lets the tests of predictors import the laws and the random jobs beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
