"""The cut of the code: small enough, without circles and twins."""

import re

import pytest

from benchmarks.structure import POWER_DECISION, QUEUE_DECISION, ROOT, Structure

DEVELOPERS = ROOT / "docs" / "developers"
PATH = re.compile(r"`((?:offpeak|predictors|plugin|sim_backend|power|services|studies|ui|tests)/[\w./-]*)`")


@pytest.fixture(scope="module")
def structure() -> Structure:
    return Structure()


def test_files_and_lines(structure: Structure) -> None:
    assert len(structure.modules) <= 605
    assert sum(structure.lines) <= 86_000


def test_no_module_imports_itself_through_others(structure: Structure) -> None:
    assert structure.circles == []


def test_a_public_class_name_stands_once(structure: Structure) -> None:
    assert structure.repeated_classes == {}


def test_most_modules_serve_more_than_one(structure: Structure) -> None:
    assert len(structure.imported_by_one) <= 150


def test_calls_name_their_arguments(structure: Structure) -> None:
    assert len(structure.long_calls) <= 156


@pytest.mark.parametrize(("decision", "files", "returns"), [(POWER_DECISION, 10, 9), (QUEUE_DECISION, 14, 22)])
def test_a_decision_reads_in_one_sitting(structure: Structure, decision: str, files: int, returns: int) -> None:
    walk = structure.walk(decision)
    assert (len(walk.files) <= files, walk.returns <= returns) == (True, True), walk


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_the_map_names_what_exists(page: str) -> None:
    named = [path for path in PATH.findall((DEVELOPERS / page).read_text()) if "NAME" not in path]
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
