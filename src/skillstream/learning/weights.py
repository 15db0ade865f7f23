"""How much each sample of a stream counts: gamma_t times the product of later (1 - gamma)."""

from typing import Any

import numpy as np

from skillstream.learning.config import OnlineConfig

# Weights are kept relative to a power of two, 2 ** (_BLOCK * block), that grows with forgetting.
_BLOCK = 512


class Weights:
    """Weights as growing numbers, so that the past never has to be multiplied down.

    Sample t gets gamma_t / prod_{j <= t} (1 - gamma_j), which stands in the paper's proportion to
    all others. When it grows out of a block of powers of two the sums are rescaled, exactly.
    """

    def __init__(self, config: OnlineConfig, log2_decay: float = 0.0):
        self.config = config
        self.log2_decay = log2_decay

    def of(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For samples `first + 1` on: weights within their blocks, block numbers, and decays."""
        weighting, rate = self.config.weighting, self.config.rate
        if weighting == "uniform":
            return np.ones(count), np.zeros(count, np.int64), np.zeros(count)
        time = np.arange(first + 1, first + count + 1, dtype=np.float64)
        if weighting == "growing":  # never out of the first block
            return time ** (rate - 1), np.zeros(count, np.int64), np.zeros(count)
        gamma = time**-rate if weighting == "polynomial" else np.full(count, rate)
        kept = np.where(time > 1, 1 - gamma, 1.0)
        log2_decay = np.cumsum(np.concatenate([[self.log2_decay], np.log2(kept)]))[1:]
        block = self.block_of(log2_decay)
        return gamma * np.exp2(-log2_decay - _BLOCK * block), block, log2_decay

    @staticmethod
    def block_of(log2_decay: Any) -> Any:
        """The block of powers of two that a decay has grown into."""
        return np.floor(-log2_decay / _BLOCK).astype(np.int64)

    @staticmethod
    def factor(blocks: int) -> float:
        """What sums are multiplied by when the weights move on by so many blocks."""
        return float(np.exp2(-float(_BLOCK * blocks)))
