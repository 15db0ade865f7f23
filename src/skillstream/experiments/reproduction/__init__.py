"""The paper's experiments, run as trials: what they are, how they are run, what they say."""
