"""What must survive a restart: the event log, and later subscriptions, sessions and mailboxes."""
