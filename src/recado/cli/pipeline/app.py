"""The group ``recado pipeline`` and its verbs."""

from __future__ import annotations

from recado.cli.verb import verb

_HELP = """\
To begin with:

  recado pipeline match subscriptions.ndjson events.ndjson --out matches
  recado pipeline publish subscriptions.ndjson --set alerts
  recado pipeline stream alerts incoming/ --out matches --checkpoint state
  recado pipeline report subscriptions.ndjson --events events.ndjson --out report

Every job takes --master (local[*] unless told otherwise), --remote for Spark Connect, and --conf key=value.
"""

app = verb("pipeline", epilogue=_HELP)
app.command("recado.cli.pipeline.publish:app", name="publish", help="Publish a version of a subscription set.")
app.command("recado.cli.pipeline.match:app", name="match", help="Match events against subscriptions, into Parquet.")
app.command("recado.cli.pipeline.stream:app", name="stream", help="Match events as they arrive, into Parquet.")
app.command("recado.cli.pipeline.report:app", name="report", help="Analyse a subscription set: a page with figures.")
app.command("recado.cli.pipeline.frequencies:app", name="frequencies", help="Count words and lemmas of a corpus.")
app.command("recado.cli.pipeline.align:app", name="align", help="Compute similarities of names in advance.")
