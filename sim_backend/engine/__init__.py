"""The event-driven engine: arrays for state, compiled kernels that move it, nothing else."""
