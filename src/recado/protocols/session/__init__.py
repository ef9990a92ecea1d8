"""What an agent and the event service say to each other in a session, and the agent's side as a machine."""
