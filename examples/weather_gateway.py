"""A weather gateway: CloudEvents in, subscriptions in the braces syntax, arrays and dotted names.

Run: ``python examples/weather_gateway.py``
"""

from __future__ import annotations

from recado import EventError, Index, Subscription, parse, read_event, write_flat

CLOUD_EVENT = """
{"specversion": "1.0", "id": "r-1", "source": "/stations/porto", "type": "reading", "subject": "Porto",
 "data": {"umidade": 71, "temperatura média": 18.5, "wind": {"gusts": [12, 74, 31]}}}
"""
FLAT_EVENT = '{"id": "r-2", "type": "reading", "umidade": 40, "temperatura média": 31}'
BROKEN = '{"id": "r-3", "type": "reading", "umidade": [1, 2'


def main() -> None:
    index = Index()
    index.add(Subscription("humid and mild", parse("{umidade, GT, 60; temperatura média, LE, 25}")))
    index.add(Subscription("storm", parse("wind.gusts > 70")))  # an array: some element is above 70
    index.add(Subscription("dry", parse("not (umidade >= 50)")))

    for message in (CLOUD_EVENT, FLAT_EVENT, BROKEN):
        try:
            event = read_event(message)
        except EventError as error:
            print("refused:", error)
            continue
        print(event.id, "->", ", ".join(index.match(event)) or "nobody")
    print(write_flat(read_event(CLOUD_EVENT)).decode())


if __name__ == "__main__":
    main()
