import json
import pickle
import struct

import numpy as np
import pytest
import worlds
from safetensors.numpy import save_file

import skillstream as ss
from skillstream.files import write_whole

UNIFORM = {
    "selection": [[0.5, 0.5]],
    "action": [[[0.5, 0.5], [1, 0]]],
    "termination": [[[0.9, 0.1], [0.9, 0.1]]],
}


@pytest.mark.parametrize("kind", sorted(worlds.POLICIES))
def test_tables_and_files_give_back_the_policy(kind, tmp_path):
    policy = worlds.POLICIES[kind](seed=1)
    again = ss.OptionPolicy.from_tables(**policy.tables())
    policy.save(tmp_path / "policy")
    loaded = ss.OptionPolicy.load(tmp_path / "policy")
    for name, table in policy.tables().items():
        np.testing.assert_allclose(again.tables()[name], table, rtol=1e-15)
        np.testing.assert_allclose(loaded.tables()[name], table, rtol=1e-15)
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_seed_gives_the_same_policy_twice():
    one, two, other = (ss.OptionPolicy.tabular(2, 4, 3, seed=seed).tables() for seed in (5, 5, 6))
    np.testing.assert_array_equal(one["action"], two["action"])
    assert not np.allclose(one["action"], other["action"])
    assert not np.allclose(one["action"][:, 0], one["action"][:, 1])


def test_a_tiny_probability_to_stop_survives():
    table = [[[1 - 1e-300, 1e-300], [1e-12, 1 - 1e-12]]]
    kept = ss.OptionPolicy.from_tables(**{**UNIFORM, "termination": table}).tables()["termination"]
    assert kept[0, 0, 1] == 1e-300
    np.testing.assert_allclose(kept[0, 1, 0], 1e-12, rtol=1e-14)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"selection": [[0.5, 0.6]]}, "selection: row .0,. sums to 1.1"),
        ({"selection": [[1.5, -0.5]]}, "selection: holds a probability that is negative"),
        ({"selection": [[np.nan, 1.0]]}, "selection: holds a probability"),
        ({"selection": [0.5, 0.5]}, "selection: must have the shape .S, K."),
        ({"selection": np.zeros((1, 0))}, "selection: must have the shape"),
        ({"action": [[[1.0]]]}, "action: must have the shape .1, 2, A., found .1, 1, 1."),
        ({"termination": [[[1.0], [1.0]]]}, "termination: must have the shape .1, 2, 2."),
        ({"initial": [1.0]}, "initial: must have the shape .2."),
        ({"selection": "many"}, "selection: must be an array of numbers"),
    ],
)
def test_bad_tables_are_refused_by_name(changed, message):
    with pytest.raises(ss.InputError, match=message):
        ss.OptionPolicy.from_tables(**{**UNIFORM, **changed})


@pytest.mark.parametrize(
    ("sizes", "name"), [((0, 1, 1), "num_options"), ((1, 0, 1), "num_states"), ((1, 1, 1.5), "num_actions")]
)
def test_sizes_must_be_whole_and_positive(sizes, name):
    with pytest.raises(ss.InputError, match=name):
        ss.OptionPolicy.tabular(*sizes)


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        (ss.Demonstrations([0, 3], [0, 1]), "observations: step 1 holds 3, but the policy has 3 states"),
        (ss.Demonstrations([0, 1], [0, 2]), "actions: step 1 holds 2, but the policy has 2 actions"),
        (ss.Demonstrations([[0.0], [1.0]], [0, 1]), "observations: this policy needs integers"),
        (ss.Demonstrations([0, 1], [[0.0], [1.0]]), "actions: this policy needs integers"),
    ],
)
def test_data_that_do_not_fit_are_refused(demos, message):
    policy = worlds.ordinary(2, 0)
    for use in (ss.smooth, ss.decode, ss.fit, ss.predict_actions, ss.sample_paths):
        with pytest.raises(ss.InputError, match=message):
            use(policy, demos)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.safetensors"
    worlds.ordinary(2, 0).save(path)
    return path


def rewrite_header(path, change):
    """Rewrite a safetensors file's own JSON header, as by somebody who leaves out the checksum."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    ours = json.loads(header["__metadata__"]["skillstream"])
    ours.pop("checksum")
    change(ours)
    header["__metadata__"]["skillstream"] = json.dumps(ours)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 50, 300, -1])
def test_a_truncated_file_is_refused(saved, kept):
    saved.write_bytes(saved.read_bytes()[:kept])
    with pytest.raises(ss.FileFormatError, match="not a whole skillstream policy"):
        ss.OptionPolicy.load(saved)


def test_a_flipped_bit_is_noticed_or_harmless(saved):
    whole, same = saved.read_bytes(), ss.OptionPolicy.load(saved).tables()
    refused = 0
    for place in range(8, len(whole), 3):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            found = ss.OptionPolicy.load(saved).tables()
        except ss.FileFormatError:
            refused += 1
            continue
        assert all(np.array_equal(found[name], same[name]) for name in same), place
    assert refused > 0.8 * len(range(8, len(whole), 3))


def test_files_of_before_there_were_checksums_are_read(saved):
    rewrite_header(saved, lambda header: None)
    assert ss.OptionPolicy.load(saved).num_options == 2


def test_a_pickle_is_refused_unread(tmp_path):
    class Trap:
        def __reduce__(self):
            return print, ("this must never run",)

    path = tmp_path / "policy.pkl"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ss.FileFormatError, match="pickle"):
        ss.OptionPolicy.load(path)


def test_a_newer_version_is_refused(saved):
    rewrite_header(saved, lambda header: header.update(version=99))
    with pytest.raises(ss.FileFormatError, match=r"newer skillstream .policy format 99"):
        ss.OptionPolicy.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "one"}, "format version 'one'"),
        ({"kind": "learner"}, "expected a skillstream policy file, found learner"),
        ({"model": "mystery"}, "kind 'mystery'"),
    ],
)
def test_a_strange_header_is_refused(saved, change, message):
    rewrite_header(saved, lambda header: header.update(change))
    with pytest.raises(ss.FileFormatError, match=message):
        ss.OptionPolicy.load(saved)


def test_strange_contents_are_refused(tmp_path):
    path = tmp_path / "policy"
    tables = worlds.ordinary(2, 0).tables()
    header = {"skillstream": json.dumps({"kind": "policy", "version": 1, "model": "tabular"})}
    save_file({**tables, "more": np.zeros(1)}, path, header)
    with pytest.raises(ss.FileFormatError, match="holds the arrays"):
        ss.OptionPolicy.load(path)
    save_file({**tables, "initial": np.array([0.4, 0.4])}, path, header)
    with pytest.raises(ss.FileFormatError, match="damaged: initial"):
        ss.OptionPolicy.load(path)
    save_file({**tables, "initial": np.array([1, 0])}, path, header)
    with pytest.raises(ss.FileFormatError, match="initial is int64"):
        ss.OptionPolicy.load(path)
    save_file(tables, path)
    with pytest.raises(ss.FileFormatError, match="something else"):
        ss.OptionPolicy.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: there is no file"):
        ss.OptionPolicy.load(tmp_path / "nothing")


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(saved, b"half")
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_damaged_learner_is_refused(tmp_path):
    learner = ss.OnlineLearner(worlds.ordinary(2, 0)).partial_fit([0, 1], [0, 1])
    learner.save(tmp_path)
    path = tmp_path / "learner.safetensors"
    whole = path.read_bytes()
    rewrite_header(path, lambda header: header["config"].update(window=-3))
    with pytest.raises(ss.FileFormatError, match="damaged: window"):
        ss.OnlineLearner.load(tmp_path)
    path.write_bytes(whole)
    rewrite_header(path, lambda header: header["numbers"].pop("block"))
    with pytest.raises(ss.FileFormatError, match="damaged: 'block'"):
        ss.OnlineLearner.load(tmp_path)
    path.write_bytes(whole[:-9])
    with pytest.raises(ss.FileFormatError, match="not a whole skillstream learner"):
        ss.OnlineLearner.load(tmp_path)
    ss.OptionPolicy.tabular(2, 3, 2).save(path)
    with pytest.raises(ss.FileFormatError, match="found policy"):
        ss.OnlineLearner.load(tmp_path)
