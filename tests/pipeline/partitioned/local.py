"""A partitioned set without Spark: the same plan, router and indexes, in one process."""

from collections import defaultdict

from recado.matching.batch import match_events
from recado.matching.index import Index
from recado.pipeline.partitioned.plan import Router, accesses, make_plan, make_router, tell


class LocalSet:
    """Subscriptions in partitions; the plan is made from every ``step``-th of them."""

    def __init__(self, subscriptions, partitions, most_keys=1000, step=1):
        self.plan = make_plan([accesses(subscription) for subscription in subscriptions[::step]], partitions)
        self.homes = {}
        keys = defaultdict(set)
        self.indexes = defaultdict(Index)
        for subscription in subscriptions:
            offered = accesses(subscription)
            access = self.plan.choose(offered)
            home = self.homes[subscription.id] = self.plan.partition(subscription.id, access, offered)
            keys[home].update(access)
            self.indexes[home].add(subscription)
        names = {name for index in self.indexes.values() for name in index.dictionary.names}
        self.router = Router(make_router({home: tell(held, most_keys) for home, held in keys.items()}, names))

    def visits(self, events):
        rows, partitions = self.router.visits(match_events(self.router.index, events))
        return list(zip(rows.tolist(), partitions.tolist(), strict=True))

    def match(self, events):
        """(row, id) of every match, as often as it is found."""
        found = []
        for row, partition in self.visits(events):
            found += [(row, id) for id in self.indexes[partition].match(events[row])]
        return sorted(found)
