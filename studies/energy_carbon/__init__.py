"""Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing"."""
