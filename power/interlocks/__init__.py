"""The safety rules for orders to nodes. A rule passes an order, or refuses it with the reason.

`preconditions` look at one node and its scheduler, `rate_limits` at the orders of the last minutes and hours, also the
failed ones. `offpeak.power.door.node_orders` puts them all into the door; docs/explanation/safety.md lists them.
"""
