"""When jobs of the queue were really moved or kept back: what the scheduler was told and took."""

from sqlalchemy import Connection, select

from offpeak.ledger.tables import intents, outcomes
from offpeak.time_range import TimeRange

SUBJECT = "queue of "
ORDERS = ("rank", "defer")


def queue_orders(connection: Connection, span: TimeRange) -> list[float]:
    """Return the times [Unix s] of the orders to queues that were done."""
    at = intents.c.at_unix_s
    within = (at >= span.from_unix_s) & (at < span.until_unix_s)
    of_queue = intents.c.subject.startswith(SUBJECT, autoescape=True) & intents.c.order.in_(ORDERS)
    done = outcomes.c.result == "done"
    return list(connection.execute(select(at).join(outcomes).where(within, of_queue, done).order_by(at)).scalars())
