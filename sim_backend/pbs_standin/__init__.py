"""The simulated scheduler in the clothes of Torque and OpenPBS: programs that answer in the formats of real ones."""
