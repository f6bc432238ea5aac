"""Units of time and energy as plain numbers. Compiled kernels import this file, so it imports nothing."""

MINUTE_S = 60
QUARTER_S = 900
HOUR_S = 3600
DAY_S = 86_400
WEEK_S = 604_800
YEAR_S = 365.25 * DAY_S

J_PER_KWH = 3.6e6
J_PER_MWH = 3.6e9
