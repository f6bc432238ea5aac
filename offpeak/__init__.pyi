"""The functions of `import offpeak`, for type checkers and editors: at run time `ui.notebook` loads on first use."""

from ui.notebook import compare as compare
from ui.notebook import load as load
from ui.notebook import plot as plot
from ui.notebook import price as price
from ui.notebook import replay as replay
