"""What goes out on a link: notices whose place has come, and notes in the order of their nids, by the link's window.

A link is given at most ``window`` notes that it has not acknowledged, so a long mailbox is drained in slices of a
window, each when the one before is acknowledged, and between two slices everybody else is served.
"""

from __future__ import annotations

from recado.delivery.boxes import Boxes
from recado.delivery.mailbox import Bounds, Box, Feed, Link, Note
from recado.delivery.notices import UNCONFIRMED
from recado.delivery.sessions import Push, Tell, User

NEVER = 2**62


class Outgoing(Boxes):
    """``holding`` while mailboxes are being loaded, when nothing may go out; ``recovering`` while events are dispatched
    that were accepted before a restart, and so have waited.
    """

    def __init__(self, bounds: Bounds, next_notice: int) -> None:
        super().__init__(bounds, next_notice)
        self.holding = self.recovering = False

    def box(self, user: User, device: str) -> Box:
        """The box of a device, or with "" the one that all devices share; a new one reaches the links of now."""
        found = user.boxes.get(device)
        if found is None:
            found = user.boxes[device] = Box(user, device, self.waiting)
            for link in user.links.values():
                if device in ("", link.device):
                    self.join(link, found)
        return found

    def join(self, link: Link, box: Box) -> None:
        feed = Feed(link, box)
        link.feeds.append(feed)
        box.feeds.append(feed)

    def pump(self, link: Link, fresh: int = NEVER) -> None:
        """Give the link what its window has room for."""
        if self.holding:
            return
        if link.news:
            self._tell(link)
        room = link.window - len(link.flying)
        if room > 0:
            notes = self._next(link, room)
            if notes:
                link.flying.extend(notes)
                self.effects.append(Push(link.key, notes, fresh))
                if fresh == NEVER:
                    link.user.delivered_late += len(notes)
                if link.news:
                    self._tell(link)

    def _next(self, link: Link, room: int) -> list[Note]:
        notes: list[Note] = []
        feeds = link.feeds
        while len(notes) < room:
            best, best_feed = None, None
            for feed in feeds:
                note = feed.next()
                if note is not None and (best is None or note.nid < best.nid):
                    best, best_feed = note, feed
            if best is None or best_feed is None:
                break
            best_feed.at += 1
            notes.append(best)
        return notes

    def _tell(self, link: Link) -> None:
        """Notices whose place has come: those before them have been given to the link."""
        room = UNCONFIRMED - len(link.told)
        if room <= 0:
            return
        ahead = [note.nid for feed in link.feeds if (note := feed.next()) is not None]
        first = min(ahead, default=NEVER)
        new = [
            notice
            for notice in link.user.notices.values()
            if notice.id not in link.told and (notice.device == link.device or not (notice.device or link.alone))
        ]
        ready = [notice for notice in new if notice.after <= first][:room]
        link.news = len(ready) < len(new)
        for notice in ready:
            link.told[notice.id] = None
            notice.open = False
        if ready:
            self.effects.append(Tell(link.key, ready))
