"""The `offpeak page` command; the page itself is in services/page."""
