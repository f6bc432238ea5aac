"""Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013."""
