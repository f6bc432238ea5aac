"""The fixture that starts `offpeak` in a tenth of a second."""

from collections.abc import Iterator

import pytest
from zygote import Zygote, zygote_in


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Starts agents and commands quickly; what starts as an operator starts it is tested in test_command."""
    with zygote_in(tmp_path_factory.mktemp("zygote")) as made:
        yield made
