"""The benchmark: workloads, yardsticks to compare with, and the harness that checks before it measures."""
