#!/bin/bash
#SBATCH --ntasks=96 --time=02:00:00
srun ./simulate
