"""``recado semantics review``: uncertain pairs of names, and what a person says of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from recado.cli.output import console, for_people, write_json, write_line
from recado.cli.verb import OK
from recado.errors import RecadoError
from recado.semantics.review import ReviewList, review_path

Two = Annotated[tuple[str, str] | None, Parameter(negative=())]


def review(*, accept: Two = None, refuse: Two = None, list: bool = False, json: bool = False) -> int:
    """Show the pairs that nobody has decided yet, or decide one.

    An accepted pair is as good as equal, a refused one as good as nothing, for every measure. Uncertain pairs come
    from `recado semantics align --note` and from services that are told to note them.

    Examples:
      recado semantics review
      recado semantics review --accept "sale price" price
      recado semantics review --refuse city country

    Parameters
    ----------
    accept
        Two names that mean the same.
    refuse
        Two names that do not.
    list
        Show the decided pairs too.
    json
        Write JSON even on a terminal.
    """
    if accept and refuse:
        raise RecadoError("give either --accept or --refuse, not both")
    listed = ReviewList.load()
    decision = accept or refuse
    if decision:
        listed.decide(*decision, accept=accept is not None)
        listed.save()
        if for_people(json):
            word = "accepted" if accept else "refused"
            write_line(f"{word}: {decision[0]} ~ {decision[1]}, remembered in {review_path()}")
        else:
            write_json({"a": decision[0], "b": decision[1], "accepted": accept is not None})
        return OK
    _show(listed, list, json)
    return OK


def _show(listed: ReviewList, decided: bool, json: bool) -> None:
    if not for_people(json):
        for one in listed.open:
            write_json({"state": "open", **msgspec.to_builtins(one)})
        for pair in listed.decided() if decided else []:
            write_json({"state": pair.origin, "constraint": pair.a, "attribute": pair.b})
        return
    from rich.table import Table

    table = Table("name", "attribute", "similarity", "threshold", "by", box=None, header_style="bold", pad_edge=False)
    for one in listed.open:
        table.add_row(one.constraint, one.attribute, f"{one.similarity:.3f}", f"{one.threshold:.3f}", one.measure)
    for pair in listed.decided() if decided else []:
        table.add_row(pair.a, pair.b, f"{pair.similarity:.0f}", "", pair.origin)
    console().print(table if table.row_count else "nothing to review")
