"""The cut of the code: small enough, without circles and twins."""

import ast
import re

import pytest

from benchmarks.structure import POWER_DECISION, QUEUE_DECISION, ROOT, Structure

PRIVATE_WORDS = frozenset(
    ["told", "asked", "heard", "sight", "sights", "wish", "wishes", "wished", "errand", "errands", "lives"]
)
PATH = re.compile(r"`((?:offpeak|predictors|plugin|sim_backend|power|services|studies|ui|tests)/[\w./-]*)`")


@pytest.fixture(scope="module")
def structure() -> Structure:
    return Structure()


def test_files_and_lines(structure: Structure) -> None:
    assert len(structure.modules) <= 563
    assert sum(structure.lines) <= 111_600


def test_no_module_imports_itself_through_others(structure: Structure) -> None:
    assert structure.circles == []


def test_a_public_class_name_stands_once(structure: Structure) -> None:
    assert structure.repeated_classes == {}


def test_most_modules_serve_more_than_one(structure: Structure) -> None:
    assert len(structure.imported_by_one) <= 103


def test_calls_name_their_arguments(structure: Structure) -> None:
    assert len(structure.long_calls) <= 19


@pytest.mark.parametrize(("decision", "files", "returns"), [(POWER_DECISION, 10, 6), (QUEUE_DECISION, 7, 4)])
def test_a_decision_reads_in_one_sitting(structure: Structure, decision: str, files: int, returns: int) -> None:
    walk = structure.walk(decision)
    assert (len(walk.files) <= files, walk.returns <= returns) == (True, True), walk


@pytest.mark.parametrize("page", ["developers/architecture.md", "developers/glossary.md", "explanation/algorithms.md"])
def test_the_map_names_what_exists(page: str) -> None:
    named = [path for path in PATH.findall((ROOT / "docs" / page).read_text()) if "NAME" not in path]
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_identifiers_are_words_of_the_field(structure: Structure) -> None:
    found = {
        f"{name}: {identifier}"
        for name, module in structure.modules.items()
        for identifier in identifiers(module.tree)
        if PRIVATE_WORDS & {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", identifier)}
    }
    assert found == set()


def identifiers(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.keyword(arg=str(name)):
                found.add(name)
    return found
