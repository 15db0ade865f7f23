"""The acting agent: it does what its policy says, the same with and without JAX."""

import subprocess
import sys
from itertools import pairwise

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from kinds import KINDS, LinearGaussian

import skillstream as ss
from skillstream.acting.compiled import CompiledRules
from skillstream.acting.rules import ACTIVATIONS, Gaussians, rules_from, sample
from skillstream.policies.layout import layout_of
from skillstream.policies.shape import ACTIVATIONS as KNOWN
from skillstream.policies.storage import pack

BUILT_IN = [name for name in KINDS if name != "own class"]


def rules_of(policy):
    return (
        CompiledRules(policy.model)
        if isinstance(policy.model, LinearGaussian)
        else rules_from("", *pack(policy))
    )


@pytest.mark.parametrize("name", KINDS)
def test_its_rules_are_the_policys_distributions(name):
    kind = KINDS[name]
    policy, demos = kind.policy(3, seed=2), kind.demos([50])
    rules, options = rules_of(policy), np.arange(50) % 3
    inputs = rules.prepare(demos.observations)
    stop, select, act = rules.stop(inputs, options), rules.select(inputs), rules.act(inputs, options)
    if isinstance(policy.model, ss.ConditionalModel):
        with jax.enable_x64(True):
            said = policy.model.conditionals(jax.numpy.asarray(demos.observations))
            expected = np.exp(said.selection), np.exp(said.termination)[..., 1]
            logs = np.asarray(said.action.log_probability(jax.numpy.asarray(demos.actions)))
    else:
        tables, states = policy.tables(), demos.observations
        expected = tables["selection"][states], tables["termination"][states][..., 1]
        logs = np.log(tables["action"][states, :, demos.actions])
    np.testing.assert_allclose(select, expected[0], rtol=2e-5)
    np.testing.assert_allclose(stop, expected[1][np.arange(50), options], rtol=2e-5)
    if isinstance(act, Gaussians):
        density = -0.5 * ((demos.actions - act.mean) / act.scale) ** 2 - np.log(
            act.scale * np.sqrt(2 * np.pi)
        )
        found = density.sum(1)
    else:
        columns = demos.actions[:, None] if act.single else demos.actions
        found = sum(np.log(w[np.arange(50), columns[:, i]] / w.sum(1)) for i, w in enumerate(act.weights))
    np.testing.assert_allclose(found, logs[np.arange(50), options], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("activation", KNOWN)
def test_activations_are_those_of_jax(activation):
    x = np.linspace(-30, 30, 601, dtype=np.float32)
    found = ACTIVATIONS[activation](x)
    np.testing.assert_allclose(found, getattr(jax.nn, activation)(x), rtol=1e-5, atol=2e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("name", BUILT_IN)
def test_from_a_file_it_acts_the_same(name, tmp_path):
    kind = KINDS[name]
    policy, demos = kind.policy(3), kind.demos([200])
    policy.save(tmp_path / "policy")
    ours, loaded = ss.Agent(policy, seed=5), ss.Agent.load(tmp_path / "policy", seed=5)
    for observation in demos.observations:
        np.testing.assert_array_equal(ours.act(observation), loaded.act(observation))
        assert ours.option == loaded.option
    other = ss.Agent(policy, seed=6)
    assert any(np.any(ours.act(x) != other.act(x)) for x in demos.observations)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_files_layout_is_the_policys(name):
    arrays, header = pack(KINDS[name].policy(3))
    found = {name: (np.shape(array), str(array.dtype)) for name, array in arrays.items()}
    known = layout_of("", header)
    assert known.keys() == found.keys()
    assert all(known[name] == found[name] for name in found if known[name][0] is not None)


def test_a_machine_without_jax_can_act(tmp_path):
    policy = ss.OptionPolicy.neural(2, 4, 3, seed=1)
    policy.save(tmp_path / "policy")
    program = (
        "import sys; sys.modules['jax'] = sys.modules['equinox'] = None; import skillstream as ss; "
        f"agent = ss.Agent.load({str(tmp_path / 'policy')!r}, seed=2); "
        "print([int(agent.act([0.1 * t, 0, 0, 0])) for t in range(20)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    agent = ss.Agent(policy, seed=2)
    assert done.stdout.strip() == str([int(agent.act([0.1 * t, 0, 0, 0])) for t in range(20)])


def test_options_and_actions_come_as_often_as_the_policy_says():
    policy = ss.OptionPolicy.tabular(3, 4, 5, seed=8)
    tables, agent, count = policy.tables(), ss.Agent(policy, seed=0), 40_000
    before = np.repeat([0, 1, 2], count)
    for state in range(4):
        actions, options = agent.predict(np.full(3 * count, state), before)
        stop, select = tables["termination"][state, :, 1], tables["selection"][state]
        for option in range(3):
            expected = stop[option] * select + (1 - stop[option]) * np.eye(3)[option]
            found = np.bincount(options[before == option], minlength=3) / count
            np.testing.assert_allclose(found, expected, atol=0.01)
            taken = np.bincount(actions[options == option], minlength=5) / (options == option).sum()
            np.testing.assert_allclose(taken, tables["action"][state, option], atol=0.015)


def test_an_outcome_of_weight_zero_is_never_drawn():
    weights = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (5, 1))
    edges = np.array([0.0, 0.3, np.nextafter(0.3, 1), 0.5, np.nextafter(1.0, 0)])
    assert set(sample(weights, edges)) == {1, 3}


def shy():
    """Two options that never stop and each have an action of their own; episodes begin with option 1."""
    flat = np.full((2, 2), 0.5)
    act = np.broadcast_to(np.eye(2), (2, 2, 2))
    return ss.OptionPolicy.from_tables(flat, act, np.broadcast_to([1.0, 0.0], (2, 2, 2)), [0, 1])


def test_it_keeps_its_option_and_says_since_when():
    agent = ss.Agent(shy())
    assert (agent.option, agent.steps_in_option) == (None, 0)
    assert [agent.act(0) for _ in range(3)] == [1, 1, 1]
    assert (agent.option, agent.steps_in_option) == (1, 3)
    agent.reset()
    assert (agent.option, agent.steps_in_option) == (None, 0)


def test_steps_in_an_option_count_from_its_selection():
    tables = shy().tables() | {"termination": np.broadcast_to([0.5, 0.5], (2, 2, 2))}
    agent = ss.Agent(ss.OptionPolicy.from_tables(**tables), seed=3)
    ran = []
    for _ in range(200):
        agent.act(0)
        ran.append((agent.option, agent.steps_in_option))
    for (before, steps), (option, since) in pairwise(ran):
        assert since == 1 or (option == before and since == steps + 1)
    assert max(since for _, since in ran) < 20


def test_predict_goes_on_from_the_state_and_begins_where_episodes_do():
    agent = ss.Agent(shy())
    actions, state = agent.predict(
        np.zeros(4, int), np.array([0, 0, 1, 1]), np.array([False, True, False, True])
    )
    assert state.tolist() == [0, 1, 1, 1] == actions.tolist()
    actions, state = agent.predict(np.zeros(4, int))
    assert state.tolist() == [1, 1, 1, 1]
    action, state = agent.predict(0, np.array([0]))
    assert action == 0
    assert state.tolist() == [0]


def test_greedy_it_takes_what_is_most_probable():
    selection, stop = [[0.2, 0.8]], 0.9
    act = [[[0.4, 0.6], [0.7, 0.3]]]
    policy = ss.OptionPolicy.from_tables(selection, act, [[[1 - stop, stop]] * 2])
    actions, options = ss.Agent(policy).predict(np.zeros(50, int), np.zeros(50, int), deterministic=True)
    assert (set(options), set(actions)) == ({1}, {0})
    lasting = ss.OptionPolicy.from_tables([[0.5, 0.5]], act, [[[0.4, 0.6]] * 2])
    _, options = ss.Agent(lasting).predict(np.zeros(50, int), np.zeros(50, int), deterministic=True)
    assert set(options) == {0}  # with probability 0.4 + 0.6 / 2


class Stub(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


def test_spaces_say_how_to_read_and_write():
    space = spaces.Dict({"at": spaces.Box(-1, 1, (2,)), "door": spaces.Discrete(2)})
    agent = ss.Agent(ss.OptionPolicy.neural(2, 4, 3), env=Stub(space, spaces.Discrete(3, start=5)))
    one = {"at": np.zeros(2), "door": 1}
    assert agent.act(one) in (5, 6, 7)
    actions, state = agent.predict({"at": np.zeros((3, 2)), "door": np.array([0, 1, 1])})
    assert set(actions) <= {5, 6, 7}
    assert len(state) == 3
    wide = ss.OptionPolicy.neural(2, 2, ss.GaussianActions(2), weight_range=3.0)
    box = Stub(spaces.Box(-1, 1, (2,)), spaces.Box(-0.1, 0.1, (1, 2), np.float32))
    actions, _ = ss.Agent(wide, env=box).predict(np.zeros((50, 2), np.float32))
    assert actions.shape == (50, 1, 2)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() == np.float32(0.1)


@pytest.mark.parametrize(
    ("name", "observation", "message"),
    [
        ("tables", 6, "observation: must lie in 0 to 5, found"),
        ("tables", -1, "observation: must lie in 0 to 5"),
        ("tables", 0.5, "observation: this policy needs a state's number"),
        ("networks", [np.nan, 0.0], "observation: holds a number that is not finite"),
        ("networks", [0.0, 0.0, 0.0], r"observation: must have the shape \(2,\), found \(3,\)"),
        ("own class", [np.inf, 0.0], "observation: the policy gives no finite number"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_observations_it_cannot_read_are_refused(name, observation, message):
    agent = ss.Agent(KINDS[name].policy())
    with pytest.raises(ss.InputError, match=message):
        agent.act(observation)


def test_other_bad_arguments_are_named(tmp_path):
    with pytest.raises(ss.InputError, match="policy: must be an OptionPolicy, found str"):
        ss.Agent("policy")
    agent = ss.Agent(shy())
    with pytest.raises(ss.InputError, match="state: must hold 3 options"):
        agent.predict([0, 0, 0], np.array([0]))
    for odd in (-1, 2):
        with pytest.raises(ss.InputError, match="state: options are 0 to 1, found"):
            agent.predict([0, 0], np.array([0, odd]))
    with pytest.raises(ss.InputError, match="episode_start: must hold 2 booleans"):
        agent.predict([0, 0], np.array([0, 0]), np.array([True]))
    with pytest.raises(ss.InputError, match="observation: there is none in it"):
        agent.predict(np.zeros(0, int))
    for seed in (-1, None, 0.5):
        with pytest.raises(ss.InputError, match="seed: must be a whole number from 0"):
            ss.Agent(shy(), seed=seed)
    with pytest.raises(ss.InputError, match="policy: has 2 actions, but the world only 1"):
        ss.Agent(shy(), env=Stub(spaces.Discrete(2), spaces.Discrete(1)))
    with pytest.raises(ss.InputError, match="observation: this policy needs numbers"):
        ss.Agent(ss.OptionPolicy.neural(2, 1, 2)).act(["a"])


def test_damaged_files_and_classes_of_your_own_are_refused(tmp_path):
    from skillstream.files import save_arrays

    path = tmp_path / "policy"
    KINDS["own class"].policy().save(path)
    with pytest.raises(ss.FileFormatError, match=r"load it with OptionPolicy\.load"):
        ss.Agent.load(path)
    arrays, header = pack(ss.OptionPolicy.neural(2, 4, 2))
    save_arrays(
        path, "policy", 1, arrays | {"selection.weights.0": np.zeros((1, 100, 3), np.float32)}, header
    )
    with pytest.raises(ss.FileFormatError, match="damaged"):
        ss.Agent.load(path)
    save_arrays(path, "policy", 1, arrays | {"initial": np.array([np.nan, 1])}, header)
    with pytest.raises(ss.FileFormatError, match="initial holds a number that is not finite"):
        ss.Agent.load(path)
    tables, header = pack(shy())
    save_arrays(path, "policy", 1, tables | {"selection": np.ones((2, 2))}, header)
    with pytest.raises(ss.FileFormatError, match=r"row .* sums to 2"):
        ss.Agent.load(path)
