"""``recado pipeline match``: all events at a place against all subscriptions, once, into Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recado.cli.flags import KnowledgeFlags
from recado.cli.inputs import Problems, read_subscriptions
from recado.cli.output import complain
from recado.cli.pipeline.spark import Job, Rows, session, summarise
from recado.cli.verb import FAILED, OK, Source, verb
from recado.errors import RecadoError

_HELP = """\
Subscriptions are an NDJSON or Parquet file with one in each row, a set that `recado pipeline publish` made, or a
partitioned set. Events are Parquet (columns are attributes), NDJSON, CloudEvents batch files, or a Recado log; files,
folders and globs.

The notifications are written as Parquet: event_id, subscription_id, owner, event_time, matched_at. Rows that are no
events are written beside them with the reason (OUT-rejected), and counted.

Examples:

  recado pipeline match subscriptions.ndjson events.ndjson --out matches
  recado pipeline match alerts 'archive/2026-*.parquet' --out matches --event --master 'local[8]'
  recado pipeline match huge.parquet events/ --out matches --partitions 16
"""

match_app = verb("match", epilogue=_HELP)


@match_app.default
def match(
    subscriptions: str,
    events: str,
    /,
    *,
    out: Path,
    rows: Rows = Rows(),  # noqa: B008  # frozen
    event: bool = False,
    renamed: bool = False,
    constraints: bool = False,
    partitions: int | None = None,
    meaning: KnowledgeFlags = KnowledgeFlags(),  # noqa: B008  # frozen
    similarities: Path | None = None,
    overwrite: bool = False,
    verify_share: float = 0.001,
    job: Job = Job(),  # noqa: B008  # frozen
) -> int:
    """Match events against subscriptions, into Parquet.

    Parameters
    ----------
    subscriptions
        NDJSON, Parquet, or a published set.
    events
        File, folder, glob or log of events.
    out
        Folder for the notifications.
    event
        Write each notification with its event.
    renamed
        Write the event as JSON with the subscriber's names, where its `semantic` asks for it (`rename`).
    constraints
        Apply the subscriptions' delivery constraints, by event time.
    partitions
        Split the subscriptions over this many partitions, for sets that one executor should not hold.
    similarities
        For semantic subscriptions: file that `recado pipeline align` made.
    overwrite
        Replace what is in OUT.
    verify_share
        Share of the matching time that compares answers with the plain evaluator. If they differ, the exit code is 1.
    """
    if out.exists() and not overwrite:
        raise RecadoError(f"{out} is there already; --overwrite replaces it")
    with session(job) as running:
        from recado.pipeline.jobs import run_match
        from recado.pipeline.readers import read_events

        summary = run_match(
            running,
            subscriptions,
            read_events(running, events, rows.format),
            out,
            partitions=partitions,
            constraints=constraints,
            include_event=event,
            include_renamed=renamed,
            overwrite=overwrite,
            form=rows.form(),
            knowledge=meaning.knowledge(similarities),
            verify_share=verify_share,
        )
    warning = summary.pop("warning", "")
    summarise({"job": "match", **summary}, job.json)
    if warning:
        complain(warning)
    return FAILED if warning else OK


# --- ``recado pipeline publish``: a new version of a subscription set, which streams take up by themselves -----------


_PUBLISH_HELP = """\
A set is a folder of versions. A stream takes the newest one at its next micro-batch; nothing has to be restarted.
No Spark is needed for this.

Examples:

  recado pipeline publish subscriptions.ndjson --set alerts                    the whole set
  recado pipeline publish more.ndjson --set alerts --change                    add these, replace equal ids
  recado pipeline publish more.ndjson --set alerts --change --remove s-1       and take s-1 out
  recado pipeline publish --set alerts --change --remove s-1 --remove s-2
  recado pipeline publish --set alerts --prune 5                               keep the newest five versions
"""

publish_app = verb("publish", epilogue=_PUBLISH_HELP)


@publish_app.default
def publish(
    subscriptions: Source | None = None,
    /,
    *,
    set: Path,
    change: bool = False,
    remove: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    prune: int | None = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Publish a version of a subscription set.

    Parameters
    ----------
    subscriptions
        NDJSON file of subscriptions, or - for standard input.
    set
        The folder of the set; it is made if it is not there.
    change
        Begin with the current version instead of with nothing.
    remove
        With --change, the id of a subscription to take out; may be given many times.
    prune
        Remove all but this many of the newest versions, afterwards.
    strict
        Stop at the first line that cannot be read, with exit code 2.
    json
        Write JSON even on a terminal.
    """
    from recado.pipeline.sets import SubscriptionSet

    if remove and not change:
        raise RecadoError("--remove changes a version, so it needs --change")
    if subscriptions is None and not change and prune is None:
        raise RecadoError("nothing to publish: give a file of subscriptions, or --change with --remove, or --prune")
    target, problems = SubscriptionSet(set), Problems(strict)
    summary: dict[str, object] = {"set": str(target.folder)}
    if subscriptions is not None or change:
        read = read_subscriptions(subscriptions, problems) if subscriptions is not None else iter(())
        version = target.change(read, remove) if change else target.publish(read)
        summary |= {
            "version": version.number,
            "subscriptions": version.subscriptions,
            "with_constraints": version.constrained,
            "bytes": version.bytes,
            "bad_lines": problems.count,
        }
    if prune is not None:
        summary["pruned"] = len(target.prune(prune))
    summarise(summary, json)
    return 0


# --- ``recado pipeline report``: what a subscription set is like, as a page, pictures and tables ---------------------


_REPORT_HELP = """\
How many filters are equal, covered by another, or can be merged; which attributes they ask for; and, with --events,
what they match: matches per event, the busiest subscriptions and types. OUT/index.html is the page to open.

Examples:

  recado pipeline report subscriptions.ndjson --out report
  recado pipeline report subscriptions.ndjson --events events.ndjson --out report --title "Alerts, November"
"""

report_app = verb("report", epilogue=_REPORT_HELP)


@report_app.default
def report(
    subscriptions: str,
    /,
    *,
    out: Path,
    events: str | None = None,
    rows: Rows = Rows(),  # noqa: B008  # frozen
    title: str = "Subscriptions and what they match",
    job: Job = Job(),  # noqa: B008  # frozen
) -> int:
    """Analyse a subscription set: a page with figures.

    Parameters
    ----------
    subscriptions
        NDJSON or Parquet with a subscription in each row.
    out
        Folder for the page, its pictures and tables.
    events
        File, folder, glob or log of events to match.
    title
        What stands at the top of the page.
    """
    with session(job) as running:
        from recado.pipeline.jobs import run_report_on

        summary = run_report_on(
            running, subscriptions, out, events=events, format=rows.format, title=title,
            form=rows.form(),
        )  # fmt: skip
    summarise({"job": "report", **summary}, job.json)
    return 0


# --- ``recado pipeline align``: the similarities of all names of subscriptions and events, before they are needed


_ALIGN_HELP = """\
Every name in the filters of the subscriptions is compared with every attribute name of the events, by the measure that
the subscription asks for (`semantic`), or by --measure where it asks for none. The scores are those of `recado
semantics explain`. A service takes the file with `semantics.cache` in its configuration, and `recado pipeline match`
with --similarities.

Examples:

  recado pipeline align subscriptions.ndjson events.ndjson --out similarities.json
  recado pipeline align alerts.parquet 'archive/*.parquet' --out similarities.json --measure feng
"""

align_app = verb("align", epilogue=_ALIGN_HELP)


@align_app.default
def align(
    subscriptions: str,
    events: str,
    /,
    *,
    out: Path,
    meaning: KnowledgeFlags = KnowledgeFlags(),  # noqa: B008  # frozen
    rows: Rows = Rows(),  # noqa: B008  # frozen
    job: Job = Job(),  # noqa: B008  # frozen
) -> int:
    """Compute the similarities of all names, into a file that services and jobs load.

    Parameters
    ----------
    subscriptions
        NDJSON or Parquet with a subscription in each row.
    events
        File, folder, glob or log of events.
    out
        The file to write.
    """
    knowledge = meaning.knowledge()
    with session(job) as running:
        from recado.pipeline.align import run_align
        from recado.pipeline.readers import Source, read_events, read_subscriptions_at
        from recado.pipeline.sets import read_subscriptions

        source = read_events(running, events, rows.format)
        form: dict[str, Any] = {**source.form, **rows.form()}
        summary = run_align(
            running,
            read_subscriptions(read_subscriptions_at(running, subscriptions)),
            Source(source.events, form),
            out.absolute(),
            knowledge=knowledge,
        )
    summarise({"job": "align", **summary}, job.json)
    return 0


# --- ``recado pipeline frequencies``: how often words and lemmas occur in a corpus of any size -----------------------


_FREQUENCIES_HELP = """\
The corpus is plain text, or JSON lines with --text-field, packed with gzip or not; files, folders and globs. The table
is what semantic matching reads its frequencies from.

Examples:

  recado pipeline frequencies corpus/ --out frequencies
  recado pipeline frequencies 'wiki/*.jsonl.gz' --text-field text --language pt --out frequencies-pt
"""

frequencies_app = verb("frequencies", epilogue=_FREQUENCIES_HELP)


@frequencies_app.default
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
