"""A session whichever way it came: its messages in, the engine's answers and notifications out, over any transport."""
