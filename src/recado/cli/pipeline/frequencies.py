"""``recado pipeline frequencies``: how often words and lemmas occur in a corpus of any size."""

from __future__ import annotations

from pathlib import Path

from recado.cli.pipeline.spark import Job, session, summarise
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
    job: Job = Job(),  # noqa: B008  # frozen
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
    """
    with session(job) as running:
        from recado.pipeline.frequencies import run_frequencies
        from recado.pipeline.readers import located

        places = [located(path) for path in (corpus, *more)]
        summary = run_frequencies(running, places, out.absolute(), language=language, text_field=text_field)
    summarise({"job": "frequencies", **summary}, job.json)
    return 0
