"""Stock alerts: subscriptions in the expression syntax, matched one event at a time.

Run: ``python examples/stock_alerts.py``
"""

from __future__ import annotations

from recado import Event, Index, Subscription, parse


def main() -> None:
    index = Index()
    index.add(Subscription("ana", parse('Stock == "PETR4" and Price < 25')))
    index.add(Subscription("bruno", parse('Stock in {"PETR4", "VALE3"} and Volume >= 1_000_000')))
    index.add(Subscription("carla", parse("Change <= -4 or Change >= 4"), type="StockExchange"))

    ticks = [
        Event(
            "t-1", "StockExchange", attributes={"Stock": "PETR4", "Price": 24.9, "Volume": 2_000_000, "Change": -1.2}
        ),
        Event("t-2", "StockExchange", attributes={"Stock": "VALE3", "Price": 68.0, "Volume": 40_000, "Change": 4.5}),
        Event("t-3", "StockExchange", attributes={"Stock": "PETR4", "Price": "unknown"}),
    ]
    for tick in ticks:
        print(tick.id, "->", ", ".join(index.match(tick)) or "nobody")

    index.remove("bruno")  # subscriptions come and go while matching goes on
    print("without bruno:", ", ".join(index.match(ticks[0])))


if __name__ == "__main__":
    main()
