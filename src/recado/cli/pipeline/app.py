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
app.command("recado.cli.pipeline.jobs:publish_app", name="publish", help="Publish a version of a subscription set.")
app.command("recado.cli.pipeline.jobs:match_app", name="match", help="Match events with subscriptions, into Parquet.")
app.command("recado.cli.pipeline.stream:app", name="stream", help="Match events as they arrive, into Parquet.")
app.command("recado.cli.pipeline.jobs:report_app", name="report", help="Analyse a subscription set: a page of figures.")
app.command("recado.cli.pipeline.jobs:frequencies_app", name="frequencies", help="Count words and lemmas of a corpus.")
app.command("recado.cli.pipeline.jobs:align_app", name="align", help="Compute similarities of names in advance.")
