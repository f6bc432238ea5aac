"""The published experiments, run again with our engine and put beside the published figures.

`registry` names all studies; each is a function from a `StudyOrder` to a `Report`. A study plans its
experiments, `resumable` runs those whose results the output folder does not have yet, and `report` holds tables
and figures. In each folder `run` is a pure function of one experiment: the digest of its sources, and of all
that they import, names the results, so `run` and what it imports stay free of plans, tables and figures.
"""
