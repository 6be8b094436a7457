"""Benchmarks and the scripts that write their data; see bench/README.md."""
