"""Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005."""
