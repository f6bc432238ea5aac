"""The one door through which every effect goes."""
