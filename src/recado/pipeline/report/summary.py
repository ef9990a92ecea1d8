"""The figures of a report in one dictionary: what ``summary.json`` holds and the page tells in words.

``super_nodes`` is what an overlay with one representative a filter needs to know, ``routing`` what a broker's table
comes to: *simple* keeps every subscription, *identity* one of equal filters, *covering* only what nothing covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from recado.model.times import format_time
from recado.pipeline.report.popularity import zipf_exponent

Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Rows]

_NOTHING: dict[str, Any] = {
    "subscriptions": 0, "filters": 0, "redundancy": 0.0, "equal": 0, "largest": 0, "never": 0, "judged": 0,
    "covered": 0.0, "covered_share": 0.0, "covered_margin": 0.0, "covered_is": "exact",
    "mergeable": 0.0, "mergeable_share": 0.0, "mergeable_margin": 0.0, "mergeable_is": "exact",
    "coverers": 0.0, "depth": 0, "depth_is": "exact",
}  # fmt: skip


def summarise(tables: Tables, title: str, now: datetime) -> dict[str, Any]:
    """The summary of all tables that there are."""
    whole = tables["redundancy"][-1] if tables["redundancy"] else _NOTHING
    out: dict[str, Any] = {
        "title": title,
        "made_at": format_time(now),
        "subscriptions": whole["subscriptions"],
        "rejected_subscriptions": _first(tables, "rejected_rows", "rows"),
        "never_matching": whole["never"],
        "types": max(len(tables["redundancy"]) - 1, 0),
        "filters": whole["filters"],
        "equal": whole["equal"],
        "covered": _figure(whole, "covered"),
        "mergeable": _figure(whole, "mergeable"),
        "super_nodes": _super_nodes(whole, tables["families"]),
        "routing": _routing(whole),
        "attributes": _attributes(tables["attributes"]),
    }
    return out | _activity(tables, whole["subscriptions"])


def _figure(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "filters": round(row[name]),
        "share": row[f"{name}_share"],
        "margin": row[f"{name}_margin"],
        "is": row[f"{name}_is"],
        "judged": row["judged"],
    }


def _super_nodes(whole: Mapping[str, Any], families: Rows) -> dict[str, Any]:
    filters, subscriptions = whole["filters"], whole["subscriptions"]
    return {
        "redundancy": whole["redundancy"],
        "representatives": filters,
        "children_mean": subscriptions / filters - 1 if filters else 0.0,
        "children_most": max(whole["largest"] - 1, 0),
        "zipf_exponent": zipf_exponent([(row["size"], row["filters"]) for row in families]),
    }


def _routing(whole: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "simple": whole["subscriptions"],
        "identity": whole["filters"],
        "covering": round(whole["filters"] - whole["covered"]),
        "coverers_mean": whole["coverers"],
        "depth": whole["depth"],
        "depth_is": whole["depth_is"],
    }


def _attributes(rows: Rows) -> dict[str, Any]:
    out: dict[str, Any] = {"named": len(rows), "hottest": [row["attribute"] for row in rows[:5]]}
    if any("present" in row for row in rows):
        out["in_no_event"] = [row["attribute"] for row in rows if not row["present"]]
    return out


def _activity(tables: Tables, subscriptions: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if "reached" in tables:
        reached = _first(tables, "reached", "subscriptions")
        out["notifications"] = _first(tables, "reached", "pairs")
        out["reached_subscriptions"] = reached
        out["reached_share"] = reached / subscriptions if subscriptions else 0.0
    if tables.get("selectivity"):
        row = tables["selectivity"][-1]
        out["events"] = row["events"]
        out["rejected_events"] = sum(bad["rows"] for bad in tables["rejected_events"])
        out["matches_an_event"] = {name: row[name] for name in ("mean", "median", "p99", "most")}
        out["selectivity"] = row["share"]
        out["unwanted_events"] = row["none"]
    return out


def _first(tables: Tables, table: str, column: str) -> int:
    return int(tables[table][0][column]) if tables[table] else 0
