"""Stable-Baselines3's own evaluation runs an agent unchanged, and its models demonstrate."""

import gymnasium
import numpy as np
import pytest

import skillstream as ss

pytest.importorskip("stable_baselines3", reason="pip install -c constraints.txt stable-baselines3")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("worlds", [1, 3])
def test_its_evaluate_policy_runs_an_agent(worlds, deterministic):
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env = make_vec_env("CartPole-v1", n_envs=worlds, seed=0)
    agent = ss.Agent(ss.OptionPolicy.neural(2, 4, 2, seed=1))
    returns, lengths = evaluate_policy(
        agent, env, n_eval_episodes=6, deterministic=deterministic, return_episode_rewards=True
    )
    assert len(returns) == 6
    assert returns == lengths  # cart pole pays 1 a step
    assert min(lengths) >= 8


def test_its_evaluate_policy_runs_an_agent_on_nested_observations():
    from stable_baselines3.common.envs import SimpleMultiObsEnv
    from stable_baselines3.common.evaluation import evaluate_policy

    env = SimpleMultiObsEnv(random_start=False)
    size = gymnasium.spaces.flatdim(env.observation_space)
    agent = ss.Agent(ss.OptionPolicy.neural(2, size, 4, seed=1), env=env)
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=2, deterministic=False)
    assert np.isfinite(mean)


def test_its_models_demonstrate():
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu", seed=0)
    demos = ss.collect(model, "CartPole-v1", episodes=3)
    assert len(demos) == 3
    assert demos.true_options is None
    assert demos.observations.shape[1] == 4
