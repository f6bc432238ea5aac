"""Lets these tests import what they share: the plain scheduler and the random clusters beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
