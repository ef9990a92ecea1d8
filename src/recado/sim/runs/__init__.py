"""Runs of a simulation: scenario files, sweeps, results and plots."""
