"""Two machine instructions on 64-bit words that numba does not offer by name."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), emit


popcount = cast(Callable[[np.uint64], int], _popcount)
"""Return the number of set bits of a word."""

lowest_bit = cast(Callable[[np.uint64], int], _lowest_bit)
"""Return the index of the lowest set bit of a word that is not 0."""
