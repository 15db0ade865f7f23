"""The paper's two E-steps as it writes them, so that their cost can be measured beside ours.

Nothing learns with these: the batch works on dense `K x B x K` steps, and the online recursion keeps
rho for every option, state and action. Both are what Section 6.1 counts. `B` is 2 throughout.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from skillstream.inference.potentials import Potentials
from skillstream.policies.tabular import TabularModel


def forward_backward(
    p: Potentials, mu: Float[Array, "K"]
) -> tuple[Float[Array, "T K 2"], Float[Array, "T K 2"]]:
    """The smoothing distributions of one episode: gamma_t(o_t, b_t) and xi_t(o_{t-1}, b_t).

    Eqs. alpha, beta, batchBW_gamma and batchBW_xi, with P(O_0) = mu in the place of a known o_0.
    """

    def forward(alpha, p):
        before = jnp.sum(alpha, 1)
        alpha = p.action[:, None] * jnp.sum(_step(p) * before[:, None, None], 0).T
        alpha = alpha / jnp.sum(alpha)
        return alpha, (alpha, before)

    def backward(beta, x):
        p, alpha, before = x
        gamma = alpha * beta
        entering = jnp.sum(_step(p) * (p.action[:, None] * beta).T, 2)  # o', b
        xi = before[:, None] * entering
        beta = jnp.sum(entering, 1, keepdims=True)
        beta = jnp.broadcast_to(beta / jnp.sum(beta), gamma.shape)
        return beta, (gamma / jnp.sum(gamma), xi / jnp.sum(xi))

    first = jnp.stack([mu, jnp.zeros_like(mu)], 1)
    alpha, before = lax.scan(forward, first, p)[1]
    return lax.scan(backward, jnp.ones_like(first), (p, alpha, before), reverse=True)[1]


def _step(p: Potentials) -> Float[Array, "K 2 K"]:
    """pi_b(b | s, o') pi~_hi(o | o', s, b) of one step, over o', b and o."""
    return jnp.stack([jnp.diag(p.stay), p.stop[:, None] * p.selection], 1)


class Recursion(NamedTuple):
    """What Algorithm 2 keeps between samples, and what it makes of them."""

    rho: Float[Array, "K 2 K S A K"]  # over o', b, o, s, a, o''
    chi: Float[Array, "K"]
    phi: Float[Array, "K 2 K S A"]


def begin(num_options: int, num_states: int, num_actions: int) -> Recursion:
    """Before the first sample (eqs. propOBW_chi_init and propOBW_rho_init); any first option is as likely."""
    shape = (num_options, 2, num_options, num_states, num_actions)
    chi = jnp.full(num_options, 1 / num_options, jnp.float64)
    return Recursion(jnp.zeros((*shape, num_options), jnp.float64), chi, jnp.zeros(shape, jnp.float64))


def update(
    last: Recursion, p: Potentials, state: Int[Array, ""], action: Int[Array, ""], time: Float[Array, ""]
) -> Recursion:
    """One online E-step, eqs. propOBW_chi, propOBW_rho and phi_onlineBW; `p` holds one step, `[K]`."""
    joint = _step(p) * last.chi[:, None, None]  # o''', b', o''
    predicted = jnp.sum(joint, (0, 1))
    kernel = joint / predicted
    every = jnp.eye(len(predicted), dtype=kernel.dtype)
    rho = last.rho @ ((1 - 1 / time) * jnp.sum(kernel, 1))
    rho = rho.at[:, :, :, state, action].add(kernel[..., None] * every / time)
    alpha = p.action * predicted
    chi = alpha / jnp.sum(alpha)
    return Recursion(rho, chi, rho @ chi)


class NumpyRecursion:
    """The same online E-step in NumPy; the sum over rho is a product of matrices for each o', b and o."""

    def __init__(self, model: TabularModel):
        self.model, self.time = model, 0
        start = begin(model.num_options, model.num_states, model.num_actions)
        self.rho, self.chi, self.phi = (np.array(part) for part in start)
        self._spare = np.zeros_like(self.rho)

    def update(self, state: int, action: int) -> None:
        """Take one sample in."""
        model, options = self.model, len(self.chi)
        self.time += 1
        every = np.arange(options)
        joint = np.zeros((options, 2, options))  # o''', b', o''
        joint[every, 0, every] = model.stay[state] * self.chi
        joint[:, 1] = (model.stop[state] * self.chi)[:, None] * model.selection[state]
        predicted = joint.sum((0, 1))
        kernel = joint / predicted
        cells = (2 * options**2, -1, options)
        earlier, self.rho, self._spare = self.rho, self._spare, self.rho
        np.matmul(earlier.reshape(cells), (1 - 1 / self.time) * kernel.sum(1), out=self.rho.reshape(cells))
        self.rho[:, :, every, state, action, every] += kernel / self.time
        alpha = model.by_action[state, action] * predicted
        self.chi = alpha / alpha.sum()
        np.matmul(self.rho, self.chi, out=self.phi)
