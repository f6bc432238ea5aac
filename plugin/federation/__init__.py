"""Many clusters as one: where does a job run best, by wait, energy, CO2 and price? Pure decisions with reasons."""
