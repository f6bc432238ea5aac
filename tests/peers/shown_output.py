"""What pages show of a command's output, held against what it prints."""

import re


def pattern(shown: str) -> str:
    """Return the regular expression of an output in which "..." stands for anything."""
    lines = shown.splitlines()
    return "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in lines
    )
