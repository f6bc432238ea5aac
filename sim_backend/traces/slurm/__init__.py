"""Slurm's own accounting as a job log: dumps of `sacct` and the text files of jobcomp/filetxt."""
