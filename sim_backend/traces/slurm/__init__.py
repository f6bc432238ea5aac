"""Slurm's own accounting as a job log: dumps of `sacct` and the text files of jobcomp/filetxt.

`read` is the entry. It takes a text block by block: `fields` makes columns of text, `values` and `jobs` make columns of
numbers, for jobs and for steps, and `runs` chooses the lines that are jobs which ran, and reads their requests.
"""
