"""Pictures of a recorded run: a page for a browser, which needs no network, and pictures of one moment."""
