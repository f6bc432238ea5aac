"""What a job requests of a cluster: chunks of cores, memory and GPUs, and the terms that select its nodes.

A chunk is the part of a request that one node must hold, as in PBS's `select`. A Slurm job with a number of nodes has
one chunk for each node; a job with tasks only has one chunk for each task. One request describes the jobs of all
schedulers and of all logs, so that jobs of different sources can be compared.
"""

import re
from collections.abc import Collection, Iterable
from itertools import product
from typing import NamedTuple

from offpeak.errors import BadInput

Alternatives = tuple[frozenset[str], ...]
"""Sets of features. A node fits if it has all features of one set; () selects no features and fits every node."""

LONGEST_EXPRESSION = 64
"""Features and sets of a constraint beyond this number are refused: alternatives multiply."""


class Chunk(NamedTuple):
    """`copies` equal parts of a request; one node holds each part. Memory is MiB, and 0 means any amount.

    `gpu_type` is "" for GPUs of any type. `host` is the node that must hold the part, "" for any.
    """

    copies: int
    cores: int = 1
    memory_mib: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: Alternatives = ()
    host: str = ""

    def accepts(self, features: Collection[str]) -> bool:
        """Return whether a node with these features fits."""
        return not self.features or any(needed.issubset(features) for needed in self.features)


class Request(NamedTuple):
    """A job's request; two jobs with equal requests can use the same nodes.

    `apart`: each chunk needs a node of its own. `whole_nodes`: no other job may share a node. `hosts` are required
    nodes, `excluded` nodes are never used. `reservation` is "" for none. `licences` are names with counts.
    """

    partitions: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    apart: bool = True
    whole_nodes: bool = False
    hosts: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    reservation: str = ""
    qos: str = ""
    licences: tuple[tuple[str, int], ...] = ()

    @property
    def cores(self) -> int:
        """The cores of all chunks."""
        return sum(chunk.copies * chunk.cores for chunk in self.chunks)

    @property
    def gpus(self) -> int:
        """The GPUs of all chunks."""
        return sum(chunk.copies * chunk.gpus for chunk in self.chunks)

    @property
    def least_nodes(self) -> int:
        """The fewest nodes that a job needs."""
        return sum(chunk.copies for chunk in self.chunks) if self.apart else 1


_TOKEN = re.compile(r"\s*([\w.:+/=-]+|[&,|()\[\]]|\*\d+)")


def parse_features(expression: str) -> Alternatives:
    """Return the alternatives of a Slurm constraint: `a&b`, `a|b`, `[a|b]`, `(a&b)|c`, `a*2`; commas mean `&`.

    Counts are left out: they say how many nodes have the feature, not which nodes fit. Raises BadInput for other text.
    """
    tokens = [token for token in _tokens(expression) if not token.startswith("*")]
    if not tokens:
        return ()
    if sum(map("([".count, tokens)) > LONGEST_EXPRESSION:
        raise _bad(expression)
    found, end = _alternatives(tokens, 0, expression)
    if end != len(tokens):
        raise _bad(expression)
    return tuple(sorted(set(found), key=sorted))


def _tokens(expression: str) -> Iterable[str]:
    at = 0
    text = expression.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _bad(expression)
        yield match[1]
        at = match.end()


def _alternatives(tokens: list[str], at: int, expression: str) -> tuple[list[frozenset[str]], int]:
    found, at = _conjunction(tokens, at, expression)
    while at < len(tokens) and tokens[at] == "|":
        more, at = _conjunction(tokens, at + 1, expression)
        found = found + more
    return found, at


def _conjunction(tokens: list[str], at: int, expression: str) -> tuple[list[frozenset[str]], int]:
    found, at = _term(tokens, at, expression)
    while at < len(tokens) and tokens[at] in "&,":
        more, at = _term(tokens, at + 1, expression)
        found = [one | other for one, other in product(found, more)]
        if len(found) > LONGEST_EXPRESSION:
            raise _bad(expression)
    return found, at


_CLOSING = {"(": ")", "[": "]"}


def _term(tokens: list[str], at: int, expression: str) -> tuple[list[frozenset[str]], int]:
    if at >= len(tokens) or tokens[at] in "&,|)]":
        raise _bad(expression)
    closing = _CLOSING.get(tokens[at])
    if closing is None:
        return [frozenset((tokens[at],))], at + 1
    found, at = _alternatives(tokens, at + 1, expression)
    if at >= len(tokens) or tokens[at] != closing:
        raise _bad(expression)
    return found, at + 1


def _bad(expression: str) -> BadInput:
    return BadInput(f"{expression[:100]!r} is not a constraint on features", hint="write it as a&b, a|b or (a&b)|c")
