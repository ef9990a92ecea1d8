"""``recado pipeline frequencies``: how often words and lemmas occur in a corpus of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recado.cli.pipeline.spark import SparkOptions, session, summarise
from recado.cli.verb import verb

_HELP = """\
The corpus is plain text, or JSON lines with --text-field, packed with gzip or not; files, folders and globs. The table
is what semantic matching reads its frequencies from.

Examples:

  recado pipeline frequencies corpus/ --out frequencies
  recado pipeline frequencies 'wiki/*.jsonl.gz' --text-field text --language pt --out frequencies-pt
"""

app = verb("frequencies", epilogue=_HELP)


@app.default
def frequencies(
    corpus: str,
    /,
    *more: str,
    out: Path,
    language: str = "en",
    text_field: str | None = None,
    spark: SparkOptions = SparkOptions(),  # noqa: B008  # frozen
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Count words and lemmas of a corpus.

    Parameters
    ----------
    corpus
        File, folder or glob of texts.
    more
        Further ones.
    out
        Folder for the table of frequencies.
    language
        Language of the texts, for lemmas.
    text_field
        Of JSON lines: the member that holds the text.
    json
        Write JSON even on a terminal.
    quiet
        No progress.
    """
    with session(spark, quiet) as running:
        from recado.pipeline.frequencies import run_frequencies
        from recado.pipeline.readers import located

        places = [located(path) for path in (corpus, *more)]
        summary = run_frequencies(running, places, out.absolute(), language=language, text_field=text_field)
    summarise({"job": "frequencies", **summary}, json)
    return 0
