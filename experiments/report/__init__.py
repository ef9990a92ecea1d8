"""The report of an experiment: published beside measured, as Markdown and HTML. Nothing in it is typed by hand."""
