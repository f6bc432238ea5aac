"""What electricity costs over time.

`file` reads a CSV file into a series (`layout` declares its columns), `tariff` makes a series from two prices and the
hours of the higher one. `peak` divides a series into on-peak and off-peak. `alignment` maps the seconds of a job log to
the calendar of the prices.
"""

ASSUMED_TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"
"""The tariff that offpeak assumes if no price is declared; every figure based on it says so."""
