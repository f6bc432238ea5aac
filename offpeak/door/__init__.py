"""The one door through which every effect goes: what is refused there does not happen, and what happens is written."""
