"""The simulator: machines, a network model and a seed in; the same run out, every time."""
