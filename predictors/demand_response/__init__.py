"""Caps on the machine's power that somebody orders: a site's own file of events, and OpenADR 3."""
