"""The canary of a service: some answers of the index compared with the plain evaluator, and a new index if they differ.

Of each slice of events that was matched one event is compared, if the share of the time allows it
(``recado.matching.canary``). Subscriptions by meaning are left out, for their plain answer may take long; so is what
does not want the event, being younger than it or ended.

A difference is a fault of Recado. It is logged with filter and event, counted, and told in the status until the service
starts again. Then the index is built anew from the subscriptions that the service has, in a thread, while events wait,
and what was found out about them is matched again. A new index that differs as well will not be helped by a third one:
then the plain evaluator's answers are used for what was compared, and an index is built again after an hour at the
soonest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from random import Random
from time import perf_counter

from recado.broker.state import State, SubscriptionState
from recado.filters.evaluate import matches
from recado.matching.canary import Canary, Disagreement, Rng, corrected
from recado.model.event import Event
from recado.model.filter import Filter
from recado.model.subscription import Subscription
from recado.server.matching import Matcher
from recado.server.metrics import Metrics

REBUILD_SECONDS = 3_600.0
LOGGED = 20
"""Of one event, so many pairs are logged."""
_DRAWS = 8
_log = logging.getLogger("recado.server")


class ServiceCanary:
    """``subscription_of`` reads a subscription that the broker has."""

    def __init__(
        self,
        state: State,
        metrics: Metrics,
        share: float,
        *,
        subscription_of: Callable[[SubscriptionState], Subscription],
        rng: Random | None = None,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._broker_state, self._metrics, self._timer = state, metrics, timer
        self._subscription_of = subscription_of
        self._canary = Canary(share, rng or Random(), timer)  # noqa: S311  # it chooses what to compare
        self._built_at: float | None = None
        self._known: tuple[int, list[Disagreement]] | None = None  # of the event at a position, before the new index
        self._state = ""

    @property
    def trouble(self) -> str:
        """That the index was wrong, and what has come of it; empty if it never was."""
        count = self._canary.disagreements
        pairs = f"{count:,} of {count + self._canary.agreements:,} compared pairs of an event and a subscription"
        return f"matching differed from the plain evaluator on {pairs}; {self._state}; see the log" if count else ""

    def matched(self, seconds: float) -> None:
        """So long events were matched."""
        self._canary.earn(seconds)

    def compare(
        self,
        matcher: Matcher,
        first: int,
        events: Sequence[Event],
        found: list[list[str]],
        besides: Callable[[int], Collection[str]] = lambda number: (),
    ) -> bool:
        """Compare one of the events, the first of which is at this position, and correct what was found of it.

        ``besides`` names the subscriptions about which nothing is decided yet. True if the index should be built anew,
        and these events be matched again.
        """
        self._look_again(first, events, found)
        if not self._canary.due or not events:
            return False
        number = self._canary.choose(len(events))
        wanting = _Wanting(self._broker_state, matcher, first + number, self._subscription_of, besides(number))
        wrong = self._canary.compare(events[number], found[number], wanting)
        self._count()
        if not wrong:
            return False
        self._tell(wrong)
        if self._built_at is not None and self._timer() - self._built_at < REBUILD_SECONDS:
            self._state = "a new index differs as well, and some notifications may be wrong or missing"
            found[number] = corrected(found[number], wrong)
            return False
        self._known = first + number, wrong
        self._state = "the index is being built anew, and events wait for it"
        return True

    def built(self, problem: str = "") -> None:
        """There is a new index, or a reason why there is none."""
        self._built_at = self._timer()
        self._metrics.index_rebuilds += 1
        self._state = f"a new index could not be built: {problem}" if problem else "the index was built anew"
        _log.error("after a difference to the plain evaluator: %s", self._state)

    def _look_again(self, first: int, events: Sequence[Event], found: list[list[str]]) -> None:
        """The pairs that were wrong before the new index must be right now, by whatever means."""
        if self._known is None or not first <= self._known[0] < first + len(events):
            return
        number, wrong = self._known[0] - first, self._known[1]
        self._known = None
        still = [one for one in wrong if (one.subscription in found[number]) is not matches(one.filter, one.event)]
        if still:
            self._state = "a new index differs as well, and some notifications may be wrong or missing"
            self._tell(still)
            found[number] = corrected(found[number], still)

    def _count(self) -> None:
        self._metrics.canary_agreements = self._canary.agreements
        self._metrics.canary_disagreements = self._canary.disagreements

    def _tell(self, wrong: list[Disagreement]) -> None:
        for one in wrong[:LOGGED]:
            subscription = self._broker_state.subscriptions.get(int(one.subscription))
            whose = (subscription.id, subscription.user.name) if subscription is not None else ("", "")
            _log.error("the index and the plain evaluator differ on subscription %r of user %r: %s", *whose, one)
        if len(wrong) > LOGGED:
            _log.error("and on %d more subscriptions", len(wrong) - LOGGED)


class _Wanting:
    """The subscriptions that want the event at a position, and are matched by content alone."""

    def __init__(
        self,
        state: State,
        matcher: Matcher,
        position: int,
        subscription_of: Callable[[SubscriptionState], Subscription],
        besides: Collection[str],
    ) -> None:
        self._subscriptions, self._matcher, self._position = state.subscriptions, matcher, position
        self._subscription_of, self._besides = subscription_of, besides

    def filter_of(self, sub_id: str) -> Filter | None:
        subscription = self._subscriptions.get(int(sub_id))
        if subscription is None or not subscription.since <= self._position < subscription.until:
            return None
        if sub_id in self._besides or not self._matcher.is_exact(sub_id):
            return None
        return self._subscription_of(subscription).whole_filter()

    def draw(self, rng: Rng) -> str | None:
        """By serial numbers, of which most are there: a list of all would take long."""
        subscriptions = self._subscriptions
        if subscriptions:
            low, high = next(iter(subscriptions)), next(reversed(subscriptions))
            for _ in range(_DRAWS):
                serial = min(low, high) + rng.randrange(abs(high - low) + 1)
                if serial in subscriptions:
                    return str(serial)
        return None
