"""Small matrices on one thread: on a busy machine, threads that wait for each other take ten times as long."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` with a linear algebra that uses one thread; with as many as it takes without threadpoolctl."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # It comes with scikit-learn, which these models do not need.
            from threadpoolctl import threadpool_limits
        except ImportError:
            return function(*args, **kwargs)
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone
