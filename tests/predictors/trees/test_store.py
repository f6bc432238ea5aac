"""Forests in files."""

from dataclasses import fields, replace

import numpy as np
import pytest

from offpeak.errors import BadInput, CannotWrite
from predictors.trees.forest import Forest
from predictors.trees.grow import Growth, Lessons, grow
from predictors.trees.store import Origin, load_forest, save_forest

ORIGIN = Origin(rows=300, first_s=10, last_s=20, mae=1.5)


@pytest.fixture(scope="module")
def forest() -> Forest:
    rng = np.random.default_rng(0)
    features = rng.random((300, 3))
    return grow(Lessons(features, features.sum(axis=1)), Growth(trees=3))


def test_what_was_saved_is_loaded(forest, tmp_path):
    save_forest(tmp_path / "forest.npz", forest, ORIGIN)
    loaded, origin = load_forest(tmp_path / "forest.npz")
    assert origin == ORIGIN
    for column in fields(Forest):
        before, after = (np.asarray(getattr(each, column.name)) for each in (forest, loaded))
        assert before.dtype == after.dtype
        assert before.tolist() == after.tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"left": -np.ones(1, np.int32)},
        {"roots": np.array([10**6], np.int32)},
        {"columns": 1},
        {"baseline": float("nan")},
    ],
)
def test_a_forest_that_could_lead_astray_is_refused(forest, tmp_path, change):
    save_forest(tmp_path / "forest.npz", replace(forest, **change), ORIGIN)
    with pytest.raises(BadInput, match="not a forest"):
        load_forest(tmp_path / "forest.npz")


def test_a_forest_that_goes_round_in_circles_is_refused(forest, tmp_path):
    save_forest(tmp_path / "forest.npz", replace(forest, left=np.zeros_like(forest.left)), ORIGIN)
    with pytest.raises(BadInput, match="not a forest"):
        load_forest(tmp_path / "forest.npz")


def test_damaged_files(forest, tmp_path):
    path = tmp_path / "forest.npz"
    with pytest.raises(BadInput, match="no such file"):
        load_forest(path)
    path.write_bytes(b"nothing of the sort")
    with pytest.raises(BadInput, match="cannot be read"):
        load_forest(path)
    save_forest(path, forest, ORIGIN)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput):
        load_forest(path)
    np.savez(path, version=99)
    with pytest.raises(BadInput, match="no forest of version 1"):
        load_forest(path)
    np.savez(path, version=1)
    with pytest.raises(BadInput, match="lacks a part"):
        load_forest(path)
    np.savez(path, version=np.array([None], object))
    with pytest.raises(BadInput, match="cannot be read"):
        load_forest(path)
    with pytest.raises(CannotWrite):
        save_forest(tmp_path / "no" / "forest.npz", forest, ORIGIN)
