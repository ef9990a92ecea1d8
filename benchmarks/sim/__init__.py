"""The benchmark of the simulator: steps of machines a second, and how they hold as the network grows."""
