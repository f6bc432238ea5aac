"""Predictors in files: what is damaged is said, and nothing in a file is ever run."""

import pickle

import numpy as np
import pytest
from laws import ORIGIN

from offpeak.errors import BadInput, CannotWrite
from offpeak.predictors.job_power import DeclaredPower
from offpeak.predictors.port import load_model, save_model
from offpeak.predictors.run_times import LastTwo, boosted_run_time
from offpeak.predictors.trees.forest import Forest, Growth, TrainingData, forest_state, grow, restore_forest


@pytest.fixture
def path(tmp_path):
    save_model(tmp_path / "model.npz", LastTwo(), ORIGIN)
    return tmp_path / "model.npz"


def changed(path, **arrays):
    with np.load(path) as archive:
        held = dict(archive)
    np.savez(path, **{**held, **arrays})


def test_each_damage_is_one_line_with_what_to_do(path):
    whole = path.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"text", whole.replace(b"recent_s", b"recent_z")):
        path.write_bytes(damage)
        with pytest.raises(BadInput, match=r"model\.npz: (cannot be read|lacks a part|holds no)") as caught:
            load_model(path, LastTwo())
        assert "remove the file" in caught.value.hint


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        load_model(tmp_path / "model.npz", LastTwo())


def test_another_predictor_or_version_is_refused(path):
    with pytest.raises(BadInput, match="holds no 'boosted'"):
        load_model(path, boosted_run_time())
    changed(path, **{"about.version": np.array(2)})
    with pytest.raises(BadInput, match="of version 1"):
        load_model(path, LastTwo())


@pytest.mark.parametrize("run_times", [4, 11])
def test_fewer_run_times_than_users_or_half_pairs_are_refused(path, run_times):
    changed(path, **{"state.users": np.arange(5), "state.recent_s": np.full(run_times, 7)})
    with pytest.raises(BadInput, match="fewer run times than users"):
        load_model(path, LastTwo())


def test_a_pickle_is_not_loaded(path):
    changed(path, **{"state.users": np.array([{"a": 1}], dtype=object)})
    with pytest.raises(BadInput, match="cannot be read"):
        load_model(path, LastTwo())
    path.write_bytes(pickle.dumps("no archive at all"))
    with pytest.raises(BadInput, match="cannot be read"):
        load_model(path, LastTwo())


def test_unwritable_model_file_is_reported(tmp_path):
    with pytest.raises(CannotWrite, match=r"model\.npz"):
        save_model(tmp_path / "no" / "model.npz", DeclaredPower(200.0), ORIGIN)


@pytest.mark.parametrize(
    "change",
    [
        {"left": np.array([-1], np.int32)},
        {"roots": np.array([10**6], np.int32)},
        {"columns": np.array(1)},
        {"baseline": np.array(np.nan)},
        {"feature": np.array([[0]], np.int32)},
    ],
    ids=str,
)
def test_a_forest_that_a_walk_could_leave_is_refused(change):
    rng = np.random.default_rng(0)
    features = rng.random((300, 3))
    state = forest_state(grow(TrainingData(features, features.sum(axis=1)), Growth(trees=3)))
    assert isinstance(restore_forest(state, 3), Forest)
    with pytest.raises(ValueError, match="not a forest"):
        restore_forest({**state, **change}, 3)
