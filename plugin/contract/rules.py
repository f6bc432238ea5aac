"""Rules over what a scheduler's configuration promises, and the findings about a configuration that breaks one.

A scheduler's contract has one list of rules. All commands and the agent print the same findings. Nodes that a DANGER
concerns are not put to sleep and not switched off; they are still woken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

from offpeak.machines.node_sets import fold_names
from offpeak.plugin.scheduler.node import Node


class Severity(StrEnum):
    """What follows from a broken rule.

    DANGER: a job or a node may be lost. FAULT: nodes do not sleep or wake, or jobs do not change places, as they
    should. ADVICE: all works, at a cost.
    """

    DANGER = "danger"
    FAULT = "fault"
    ADVICE = "advice"


@dataclass(frozen=True)
class ManagedSite:
    """The nodes that the scheduler shows, and what offpeak does with those that it may switch.

    `boots_s` are the measured durations of boots of each of them, () where none was measured. `may_delay`: jobs whose
    owners allow it may wait for a cheap hour.
    """

    nodes: Sequence[Node] = ()
    switched: frozenset[str] = frozenset()
    boots_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    wakes_per_min: int = 0
    nodes_per_sweep: int = 0
    may_delay: bool = False

    @cached_property
    def switched_nodes(self) -> list[Node]:
        """The nodes that offpeak may switch, as far as the scheduler shows them."""
        return [node for node in self.nodes if node.name in self.switched]

    @cached_property
    def switched_by_partition(self) -> Mapping[str, list[Node]]:
        """The same, by the names of their partitions."""
        found: dict[str, list[Node]] = {}
        for node in self.switched_nodes:
            for name in node.partitions:
                found.setdefault(name, []).append(node)
        return found


class Breach(NamedTuple):
    """How the configuration breaks a rule: `what` it says, and the nodes concerned, None for all that are switched.

    `subject` is put into the rule's `change`, such as the name of a partition.
    """

    what: str
    nodes: frozenset[str] | None = None
    subject: str = ""


FindBreaches = Callable[[Any, ManagedSite], Iterable[Breach]]


@dataclass(frozen=True)
class Rule:
    """A rule: the `reason` for it, and the `change` that keeps it, in which {subject} and {nodes} are replaced.

    `find` returns how a contract breaks it. `excludes`: the nodes concerned never sleep, whatever else is changed.
    `for_queue`: the rule also holds at a site where offpeak switches no node.
    """

    name: str
    severity: Severity
    reason: str
    change: str
    find: FindBreaches
    excludes: bool = False
    for_queue: bool = False


def rule(
    name: str, severity: Severity, reason: str, change: str, *, excludes: bool = False, for_queue: bool = False
) -> Callable[[FindBreaches], Rule]:
    """Make a rule of the function below, its `find`."""
    return lambda find: Rule(name, severity, reason, change, find, excludes, for_queue)


@dataclass(frozen=True)
class ContractFinding:
    """A broken rule. `what` is unique among the findings of a site."""

    rule: Rule
    what: str
    nodes: frozenset[str]
    hint: str

    @property
    def severity(self) -> Severity:
        """The severity of its rule."""
        return self.rule.severity

    @property
    def reason(self) -> str:
        """The reason for the rule, and which nodes are not switched off."""
        stays = self.severity is Severity.DANGER and self.nodes
        return f"{self.rule.reason}; not switched off: {_fold(self.nodes)}" if stays else self.rule.reason

    @property
    def message(self) -> str:
        """The finding in one line, which all commands print."""
        return f"{self.what}: {self.reason}"


class Contract(Protocol):
    """What the configuration of a scheduler promises."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules for such a scheduler."""

    def kept_awake(self, nodes: Sequence[Node]) -> Mapping[str, str]:
        """Return the nodes that must not be put to sleep as things are now, each with the setting that says so."""

    def remedy(self, native_state: str, nodes: str) -> str:
        """Return what to type for nodes that are on, and that no job can use by that state in the scheduler."""


@dataclass(frozen=True)
class NoContract:
    """The contract of a scheduler without a configuration."""

    rules: Sequence[Rule] = ()

    def kept_awake(self, nodes: Sequence[Node]) -> Mapping[str, str]:  # noqa: ARG002
        """Return no node."""
        return {}

    def remedy(self, native_state: str, nodes: str) -> str:
        """Return where to look."""
        return f"look at {nodes}: {native_state}"


NO_CONTRACT = NoContract()


def check_contract(contract: Contract, site: ManagedSite) -> tuple[ContractFinding, ...]:
    """Return the findings, the most severe first."""
    found = [
        _make_finding(rule, fault, site.switched if fault.nodes is None else fault.nodes)
        for rule in contract.rules
        if rule.for_queue or site.switched
        for fault in rule.find(contract, site)
    ]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _make_finding(rule: Rule, fault: Breach, nodes: frozenset[str]) -> ContractFinding:
    hint = rule.change.replace("{subject}", fault.subject)
    if "{nodes}" in hint:
        hint = hint.replace("{nodes}", _fold(nodes) or "NODES")
    return ContractFinding(rule, fault.what, nodes, hint)


@lru_cache(maxsize=16)
def _fold(nodes: frozenset[str]) -> str:
    # The agent folds the same thousands of names in each round.
    return fold_names(nodes)


def find_nodes_kept_awake(
    contract: Contract, findings: Iterable[ContractFinding], nodes: Sequence[Node]
) -> dict[str, str]:
    """Return why each node is not put to sleep: a danger, or what the configuration says of it now."""
    kept = dict(contract.kept_awake(nodes))
    for finding in findings:
        if finding.severity is Severity.DANGER:
            kept |= dict.fromkeys(finding.nodes, finding.what)
    return kept


def find_excluded(findings: Iterable[ContractFinding]) -> dict[str, str]:
    """Return the nodes that never sleep, each with what says so."""
    return {node: finding.what for finding in findings if finding.rule.excludes for node in finding.nodes}
