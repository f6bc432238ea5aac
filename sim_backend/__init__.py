"""The bundled simulated backend: logs, workload models, and the engine that replays them."""
