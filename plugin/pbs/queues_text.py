"""What `qstat -Q -f` and `qstat -B -f` print of queues and the server, in both systems: names and their values."""

import re

Texts = dict[str, dict[str, str]]

_STARTS = re.compile(r"^(?:Queue|Server): (.+)$", re.MULTILINE)
_FIELD = re.compile(r"^    (\S+) = (.*)$", re.MULTILINE)


def texts_of(answer: bytes) -> Texts:
    """Return the fields of each queue, or of the server, by its name. Long lines are broken with a tab."""
    pieces = _STARTS.split(answer.decode(errors="replace").replace("\n\t", ""))[1:]
    return {name: dict(_FIELD.findall(rest)) for name, rest in zip(pieces[::2], pieces[1::2], strict=True)}


def execution_queues(queues: Texts) -> tuple[str, ...]:
    """Return the queues whose jobs run; routing ones only hand jobs on."""
    return tuple(name for name, told in queues.items() if told.get("queue_type", "Execution").startswith("E"))
