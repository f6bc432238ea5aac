"""The study of "Optimizing profit and cooling costs in HPC cluster scheduling", re-run."""
