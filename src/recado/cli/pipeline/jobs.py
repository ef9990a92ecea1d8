"""``recado pipeline match``: all events at a place against all subscriptions, once, into Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from recado.cli.flags import KnowledgeFlags
from recado.cli.inputs import Problems, read_subscriptions
from recado.cli.output import complain
from recado.cli.pipeline.spark import AsRows, Job, Rows, is_local, session, summarise
from recado.cli.verb import FAILED, OK, Source, verb
from recado.errors import RecadoError
from recado.model.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HELP = """\
Subscriptions are an NDJSON or Parquet file with one in each row, a set that `recado pipeline publish` made, or a
partitioned set. Events are Parquet (columns are attributes), NDJSON, CloudEvents batch files, or a Recado log; files,
folders and globs.

The notifications are written as Parquet, a row for each event that matched: event_id, event_time, matched_at, and
matches, an array of subscription_id and owner. With --rows it is a row for each notification: event_id,
subscription_id, owner, event_time, matched_at. Rows that are no events are written beside them with the reason
(OUT-rejected), and counted.

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
    out: str,
    rows: Rows = Rows(),  # noqa: B008  # frozen
    event: bool = False,
    renamed: bool = False,
    constraints: bool = False,
    partitions: int | None = None,
    meaning: KnowledgeFlags = KnowledgeFlags(),  # noqa: B008  # frozen
    similarities: str | None = None,
    overwrite: bool = False,
    output: Literal["nested", "ordinals", "rows"] = "nested",
    as_rows: AsRows = False,
    ship: bool | None = None,
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
    output
        A row for each event, with an array of its matches, or of their ordinals, which OUT-subscriptions names; or a
        row for each notification, which takes longer and is larger.
    as_rows
        The same as --output rows.
    ship
        Send the set to the executors, or not: they map it at its path. Without either, it is sent on a cluster.
    verify_share
        Share of the matching time that compares answers with the plain evaluator. If they differ, the exit code is 1.
    """
    if is_local(out) and Path(out).exists() and not overwrite:  # before Spark starts; of a URL it is asked later
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
            ship=ship,
            output="rows" if as_rows else output,
        )
    warning = summary.pop("warning", "")
    summarise({"job": "match", **summary}, job.json)
    if warning:
        complain(warning)
    return FAILED if warning else OK


# --- ``recado pipeline publish``: a new version of a subscription set, which streams take up by themselves -----------


_PUBLISH_HELP = """\
A set is a folder of versions. A stream takes the newest one at its next micro-batch; nothing has to be restarted.
No Spark is needed for this, unless the folder is a URL, which Spark reaches.

Examples:

  recado pipeline publish subscriptions.ndjson --set alerts                    the whole set
  recado pipeline publish more.ndjson --set alerts --change                    add these, replace equal ids
  recado pipeline publish more.ndjson --set alerts --change --remove s-1       and take s-1 out
  recado pipeline publish --set alerts --change --remove s-1 --remove s-2
  recado pipeline publish --set alerts --prune 5                               keep the newest five versions
  recado pipeline publish subscriptions.ndjson --set s3a://bucket/alerts       with --conf for the connector
  recado pipeline publish s3a://bucket/huge.parquet --set s3a://bucket/huge --partitions 64
"""

publish_app = verb("publish", epilogue=_PUBLISH_HELP)


@publish_app.default
def publish(
    subscriptions: Source | None = None,
    /,
    *,
    set: str,
    change: bool = False,
    remove: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    prune: int | None = None,
    partitions: int | None = None,
    strict: bool = False,
    job: Job = Job(),  # noqa: B008  # frozen
) -> int:
    """Publish a version of a subscription set.

    Parameters
    ----------
    subscriptions
        NDJSON or Parquet with a subscription in each row, a file or a folder, here or at a URL; or - for standard
        input, as NDJSON.
    set
        The folder of the set; it is made if it is not there.
    change
        Begin with the current version instead of with nothing.
    remove
        With --change, the id of a subscription to take out; may be given many times.
    prune
        Remove all but this many of the newest versions, afterwards.
    partitions
        Write a partitioned set into a new folder instead, of so many partitions, which Spark's executors compile: for
        more subscriptions than one host should hold.
    strict
        Stop at the first line that cannot be read, with exit code 2.
    """
    if partitions is not None:
        if subscriptions is None or str(subscriptions) == "-" or change or prune is not None:
            raise RecadoError("--partitions takes a file of subscriptions, and makes a set that never changes")
        with session(job) as running:
            summary = _publish_partitions(running, str(subscriptions), set, partitions, strict)
        summarise(summary, job.json)
        return 0
    if remove and not change:
        raise RecadoError("--remove changes a version, so it needs --change")
    if subscriptions is None and not change and prune is None:
        raise RecadoError("nothing to publish: give a file of subscriptions, or --change with --remove, or --prune")
    near = is_local(set) and (subscriptions is None or is_local(subscriptions))
    with nullcontext() if near else session(job):
        summary = _publish(subscriptions, set, change, remove, prune, Problems(strict))
    summarise(summary, job.json)
    return 0


def _publish_partitions(
    running: SparkSession, subscriptions: str, folder: str, partitions: int, strict: bool
) -> dict[str, Any]:
    from recado.pipeline.partitioned import build_partitions
    from recado.pipeline.readers import read_subscriptions_at

    rows = read_subscriptions_at(running, subscriptions)
    made = build_partitions(rows, folder, partitions=partitions, bad_rows="fail" if strict else "skip")
    for bad in made.manifest.bad_rows:
        complain(f"{bad.row}: {bad.reason}")
    return {
        "set": str(made.folder),
        "partitions": partitions,
        "subscriptions": made.subscriptions,
        "with_constraints": made.manifest.constrained,
        "bytes": sum(part.bytes for part in made.manifest.parts),
        "bad_lines": made.manifest.rejected,
    }


def _publish(  # noqa: PLR0917  # what the verb was given
    subscriptions: Source | None,
    folder: str,
    change: bool,
    remove: tuple[str, ...],
    prune: int | None,
    problems: Problems,
) -> dict[str, Any]:
    from recado.pipeline.sets import SubscriptionSet

    target = SubscriptionSet(folder)
    summary: dict[str, Any] = {"set": str(target.folder)}
    if subscriptions is not None or change:
        read = _some(_read(subscriptions, problems), problems) if subscriptions is not None else iter(())
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
    return summary


def _some(read: Iterator[Subscription], problems: Problems) -> Iterator[Subscription]:
    """The same; a RecadoError if all that was there is bad: whoever publishes that has given the wrong file."""
    count = 0
    for count, one in enumerate(read, 1):  # noqa: B007  # asked for behind the loop
        yield one
    if problems.count and not count:
        raise RecadoError("nothing was published: none of the subscriptions can be read")


def _read(source: Source, problems: Problems) -> Iterator[Subscription]:
    """The subscriptions of NDJSON or Parquet, at a path or a URL, or of standard input; bad ones are reported."""
    from recado.pipeline.readers import is_parquet, subscription_files
    from recado.pipeline.sets import read_parquet

    if source == "-":
        yield from read_subscriptions(source, problems)
        return
    with TemporaryDirectory(prefix="recado-publish-") as scratch:
        for name, file in subscription_files(source, Path(scratch)):
            if not is_parquet(file):
                yield from read_subscriptions(str(file), problems, shown=name)
                continue
            for row, found in enumerate(read_parquet(file), 1):
                if isinstance(found, RecadoError):
                    problems.report(name, f", row {row}", str(found))
                else:
                    yield found


# --- ``recado pipeline report``: what a subscription set is like, as a page, pictures and tables ---------------------


_REPORT_HELP = """\
How many filters are equal, covered by another, or can be merged; which attributes they ask for; and, with --events,
what they match: matches per event, the busiest subscriptions and types. OUT/index.html is the page to open.

Examples:

  recado pipeline report subscriptions.ndjson --out report
  recado pipeline report subscriptions.ndjson --events events.ndjson --out report --title "Alerts, November"
  recado pipeline report subscriptions.ndjson --events events.ndjson --matches matches --out report
"""

report_app = verb("report", epilogue=_REPORT_HELP)


@report_app.default
def report(
    subscriptions: str,
    /,
    *,
    out: str,
    events: str | None = None,
    matches: str | None = None,
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
    matches
        What `match` or `stream` wrote of these events, so that they are not matched again; of any kind.
    title
        What stands at the top of the page.
    """
    with session(job) as running:
        from recado.pipeline.jobs import run_report_on

        summary = run_report_on(
            running, subscriptions, out, events=events, matches=matches, format=rows.format, title=title,
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
    out: str,
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
            out,
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
    out: str,
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

        summary = run_frequencies(running, (corpus, *more), out, language=language, text_field=text_field)
    summarise({"job": "frequencies", **summary}, job.json)
    return 0
