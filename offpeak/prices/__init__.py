"""What electricity costs over time.

`file` reads a CSV file into a series (`layout` declares its columns), `tariff` makes a series from two prices and the
hours of the higher one. `peak` divides a series into on-peak and off-peak. `alignment` finds where in the calendar of
the prices the seconds of a job log are.
"""
