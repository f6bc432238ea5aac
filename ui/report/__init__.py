"""The report of a comparison: one HTML file that holds its figures and everything they need.

`write` is the entry. `subject` holds what all sections are made from; each `..._figure` makes figures for
plotly, `tables` makes tables; `page` puts them together. `page` also serves the pages of a month and of a plan.
"""
