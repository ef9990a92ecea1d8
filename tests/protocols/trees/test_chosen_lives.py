"""Random lives with attraction and election, under crashes, cuts and newcomers: once that stops, all is right again.

Beside what the plain protocol promises (``test_faults``): nobody has more links than the setting allows; a subscription
has a publisher if anybody within reach publishes or stands by; and nobody is an elected publisher beside another one.
Attraction changes links after the failures have stopped, so there is no bound on time here but the end of all messages.
"""

import pytest

from protocols.trees import oracle
from protocols.trees.test_faults import Troubled
from protocols.trees.world import CAP
from recado.protocols.pubsub import BecomeBroker, BecomeCandidate
from recado.protocols.trees import TreeSettings
from recado.protocols.trees.node import HANDLERS
from recado.protocols.trees.table import speaks_of

SETTINGS = (
    TreeSettings(settle_seconds=100.0, attract=1),
    TreeSettings(settle_seconds=100.0, attract=3, attract_seconds=50.0),
    TreeSettings(settle_seconds=100.0, elect=True),
    TreeSettings(settle_seconds=100.0, elect=True, attract=2, attract_seconds=40.0, repair_seconds=0.1),
    TreeSettings(settle_seconds=100.0, elect=True, attract=2, forwarding="subscriptions"),
    TreeSettings(settle_seconds=100.0, elect=True, attract=2, share=True, buffer=100, buffer_seconds=1e6),
)
CHOSEN_SEEDS = range(300)


class Chosen(Troubled):
    """A troubled world in which nodes stand by for types, too."""

    def __init__(self, seed, settings, handlers=HANDLERS):
        self.candidates = {}
        super().__init__(seed, settings, handlers)

    def act(self):
        live = list(self.views().items())
        if not live:
            return
        node, view = self.rng.choice(live)
        chance, roles = self.rng.random(), list(dict.fromkeys([*view["publishes"], *view.get("candidate", ())]))
        if chance < 0.3 and self.settings.elect:
            self.ask(node, BecomeCandidate(self.rng.choice(("a", "b"))))
        elif chance < 0.45 and roles:
            self.ask(node, BecomeBroker(self.rng.choice(roles)))
        else:
            super().act()

    def note(self, node, request):
        match request:
            case BecomeCandidate(type):
                self.candidates.setdefault(node, {})[type] = None
            case BecomeBroker(type):
                self.candidates.get(node, {}).pop(type, None)
                self.expected.setdefault(node, ({}, {}))[1].pop(type, None)
            case _:
                super().note(node, request)

    def check(self, *, trees_only=True):
        views = self.views()
        oracle.check(views, trees_only=trees_only)
        for node, view in views.items():
            subscriptions, types = self.expected.get(node, ((), ()))
            own = [type for type in view["publishes"] if type not in view.get("elected", ())]
            oracle.require(sorted(view["subscriptions"]) == sorted(subscriptions), node, "forgot what it wants", view)
            oracle.require(sorted(own) == sorted(types), node, "forgot what it publishes", view)
            if self.settings.elect:
                self.check_roles(views, node)
            if self.settings.attract:
                self.check_links(view)

    def check_roles(self, views, node):
        view, near = views[node], oracle.reach(views, node)
        candidates = sorted(self.candidates.get(node, ()))
        oracle.require(sorted(view["candidate"]) == candidates, node, "forgot what it stands by for", view)
        for type in view["elected"]:
            oracle.require(type in view["candidate"] and type in view["publishes"], node, "was elected for", type)
            others = [other for other in near if other != node and type in views[other]["publishes"]]
            oracle.require(not others, node, "was elected for", type, "which is published by", others)
        for id, own in view["subscriptions"].items():
            roles = [
                (role, type) for other in near for role in ("publishes", "candidate") for type in views[other][role]
            ]
            found = [role for role, type in roles if speaks_of(own["type"], type)]
            oracle.require("publishes" in found or not found, id, "of", node, "waits although somebody stands by")

    def check_links(self, view):
        attraction, most = view["attraction"], self.settings.attract
        for side in ("opened", "attached"):
            oracle.require(len(attraction[side]) <= most, view["node"], "has too many links that are", side)
            strangers = set(attraction[side]) - set(map(str, view["neighbours"]))
            oracle.require(not strangers, view["node"], "has", side, "links to strangers", strangers)


def chosen_life(seed, settings=None, handlers=HANDLERS):
    settings = settings or SETTINGS[seed % len(SETTINGS)]
    world = Chosen(seed, settings, handlers)
    rng, once_each = world.rng, settings.forwarding == "seen" and not settings.buffer
    world.in_turn(rng.randrange(2, 8))
    for _ in range(3):
        world.act()
        world.run_until_quiet()
    world.check()
    world.trouble(rng.randrange(1, 20), within=rng.choice((5.0, 30.0, 120.0, 600.0)))
    world.simulation.run(steps=CAP)
    oracle.require(world.simulation.pending == 0, "messages go round without end")
    world.check()
    world.publish_everywhere(once_each=once_each)
    world.trouble(rng.randrange(1, 8), within=30.0)
    world.simulation.at(world.simulation.now + 30.0, world.outages.restore_all)
    world.run_until_quiet()
    world.check()
    world.publish_everywhere(once_each=once_each)
    return world


@pytest.mark.parametrize("block", range(6))
def test_chosen_lives(block):
    worlds = [chosen_life(seed) for seed in CHOSEN_SEEDS[block::6]]
    views = [view for world in worlds for view in world.views().values()]
    if SETTINGS[block].attract:  # the lives are about what they say
        assert sum(len(view["attraction"]["opened"]) for view in views) > 10
    if SETTINGS[block].elect:
        assert sum(len(view["elected"]) for view in views) > 3


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_chosen_lives(block):
    for seed in range(10_000 + 250 * block, 10_000 + 250 * (block + 1)):
        chosen_life(seed)
