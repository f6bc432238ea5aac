"""The code has no circles of imports and no twins, the map of it is true, and its names are words of the field."""

import ast
import re

import pytest

from benchmarks.structure import ROOT, Structure

PRIVATE_WORDS = frozenset(
    ["told", "asked", "heard", "sight", "sights", "wish", "wishes", "wished", "errand", "errands", "lives"]
)
PATH = re.compile(r"`((?:offpeak|predictors|plugin|sim_backend|power|services|studies|ui|tests)/[\w./-]*)`")


@pytest.fixture(scope="module")
def structure() -> Structure:
    return Structure()


def test_no_module_imports_itself_through_others(structure: Structure) -> None:
    assert structure.circles == []


def test_a_public_class_name_stands_once(structure: Structure) -> None:
    assert structure.repeated_classes == {}


def test_the_map_names_what_exists() -> None:
    missing = []
    for page in ("developers/architecture.md", "developers/glossary.md", "science/algorithms.md"):
        named = [path for path in PATH.findall((ROOT / "docs" / page).read_text()) if "NAME" not in path]
        assert named, page
        missing += [f"{page}: {path}" for path in named if not (ROOT / path).exists()]
    assert missing == []


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
