"""The command line: one module a verb group, each imported only when its verb is called."""
