"""What Torque and OpenPBS have in common: their commands, their words, and the files that their servers keep."""
