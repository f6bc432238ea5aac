"""The published experiments, repeated with offpeak's engine and compared with the published figures.

`registry` names all studies; each is a function from a `StudyOrder` to a `Report`. A study plans its experiments,
`harness` runs those whose results the output folder does not have, `report` holds the tables and draws the figures. In
each folder `run` is a pure function of one experiment. The digest of its sources, and of all that they import, is part
of a result's key, so `run` and what it imports stay free of plans, tables and figures.
"""
