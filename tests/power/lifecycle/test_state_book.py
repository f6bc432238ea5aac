"""What is written of a life is what an admin needs to know of the node."""

from power.lifecycle.life import Fault, NodeLife, Now
from power.lifecycle.state_book import recorded_of


def test_what_to_do_about_a_fault_stands_beside_it() -> None:
    hint = "look at its console; when it is mended: offpeak node n1 release"
    fault = Fault("does not come up", "it has power, but on was not followed within 600 s", hint, False, 1000.0)
    written = recorded_of(NodeLife("n1", fault=fault), Now(1.0, 1000.0))
    assert written.why == f"{fault.what}: {fault.reason}; {hint}"
