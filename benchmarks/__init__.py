"""Benchmarks: `make bench` measures speed as ratios within one run (docs/benchmarks.md)."""
