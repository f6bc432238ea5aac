"""The paper's federations: three simulated clusters, and the three of its testbed."""
