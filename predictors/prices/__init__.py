"""Day-ahead prices of the coming days, from the prices before them.

`predictor` is the entry, behind the port of all predictors. `history` keeps published prices and turns them into whole
days, `models` lists the members of the ensemble, `lear` is the strongest of them.
"""
