"""The benchmark of semantic matching: as the work measured it, then against exact matching with many subscriptions."""
