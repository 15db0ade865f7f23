"""A policy of your own: every option steers by a linear law with Gaussian noise.

The class says what the three distributions are; both algorithms then learn its arrays.
Run it: python examples/linear_gaussian.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import skillstream as ss


class LinearGaussian(ss.ConditionalModel):
    """pi_lo(a | s, o) = N(gain_o s, scale_o^2); linear logits select and stop options."""

    gain: jax.Array  # [K, M, D]
    log_scale: jax.Array  # [K, M]
    select: jax.Array  # [D + 1, K]
    stop: jax.Array  # [D + 1, K]
    num_options: int = eqx.field(static=True)

    def __init__(self, num_options, observation_size, action_size, seed):
        rng = np.random.default_rng(seed)
        self.gain = rng.normal(0, 0.5, (num_options, action_size, observation_size)).astype(np.float32)
        self.log_scale = np.zeros((num_options, action_size), np.float32)
        self.select, self.stop = (
            rng.normal(0, 0.1, (observation_size + 1, num_options)).astype(np.float32) for _ in range(2)
        )
        self.num_options = num_options

    def conditionals(self, observations):
        """What every option does, when it stops, and which comes next, at each observation."""
        x = observations.astype(jnp.float32)
        with_one = jnp.concatenate([x, jnp.ones((len(x), 1), jnp.float32)], 1)
        stop = with_one @ self.stop
        mean = jnp.einsum("kmd,nd->nkm", self.gain, x)
        return ss.Conditionals(
            selection=jax.nn.log_softmax(with_one @ self.select),
            termination=jnp.stack([jax.nn.log_sigmoid(-stop), jax.nn.log_sigmoid(stop)], -1),
            action=ss.DiagonalGaussian(mean, jnp.broadcast_to(jnp.exp(self.log_scale) + 0.01, mean.shape)),
        )


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    state = rng.normal(size=(4000, 2))
    option = (np.arange(4000) // 40) % 2  # two skills of 40 steps: steer towards 0, or away from it
    action = np.where(option, 1.0, -1.0)[:, None] * state + 0.1 * rng.normal(size=(4000, 2))
    demos = ss.Demonstrations(state, action, true_options=option)
    start = ss.OptionPolicy(LinearGaussian(2, 2, 2, seed=1))
    batch = ss.fit(start, demos, ss.BatchConfig(iterations=10, epochs=10))
    online = ss.OnlineLearner(start, ss.OnlineConfig(memory=500, update_every=10, steps=10))
    online.partial_fit(state, action)
    for name, policy in (("batch", batch.policy), ("online", online.policy)):
        found = ss.decode(policy, demos).options
        agreement = max((found == option).mean(), (found != option).mean())
        print(f"{name}: {agreement:.1%} of the steps given the right skill")
