"""The public names of `import offpeak`, for type checkers and editors: at run time they load on first use."""

from offpeak.sim_backend.sample import SAMPLE_LOG as SAMPLE_LOG
from offpeak.sim_backend.sample import SAMPLE_PRICES as SAMPLE_PRICES
from offpeak.ui.notebook import compare as compare
from offpeak.ui.notebook import load as load
from offpeak.ui.notebook import plot as plot
from offpeak.ui.notebook import price as price
from offpeak.ui.notebook import replay as replay
