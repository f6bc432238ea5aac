"""What `qsub -L tasks=2:lprocs=4:place=node` asks for, as the numbered fields of a Torque job's req_information."""

NAMES = {"tasks": "task_count", "feature": "features"}
"""What the option and the job's field call differently."""


def req_information(options: list[str]) -> dict[str, str]:
    """Return the fields of all `-L` options, in their order."""
    return {f"{name}.{at}": value for at, text in enumerate(options) for name, value in _fields(text).items()}


def _fields(text: str) -> dict[str, str]:
    found = {"task_count": "1", "lprocs": "1"}
    for word in text.split(":"):
        name, sign, value = word.partition("=")
        if name == "place":
            place, _, count = value.partition("=")
            found[place] = count or "1"
        elif sign:
            found[NAMES.get(name, name)] = value
    return found
