"""How fast the service is, and what it survives: ``python -m benchmarks.service``."""
