"""The mobility document's scenarios (section 14) and test vectors (section 17), in simulated time."""
