"""``recado pipeline publish``: a new version of a subscription set, which streams take up by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recado.cli.inputs import Problems
from recado.cli.match import read_subscriptions
from recado.cli.pipeline.spark import summarise
from recado.cli.verb import Source, verb
from recado.errors import RecadoError

_HELP = """\
A set is a folder of versions. A stream takes the newest one at its next micro-batch; nothing has to be restarted.
No Spark is needed for this.

Examples:

  recado pipeline publish subscriptions.ndjson --set alerts                    the whole set
  recado pipeline publish more.ndjson --set alerts --change                    add these, replace equal ids
  recado pipeline publish more.ndjson --set alerts --change --remove s-1       and take s-1 out
  recado pipeline publish --set alerts --change --remove s-1 --remove s-2
  recado pipeline publish --set alerts --prune 5                               keep the newest five versions
"""

app = verb("publish", epilogue=_HELP)


@app.default
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
