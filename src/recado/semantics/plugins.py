"""What installed packages and programs add to semantics beside measures: strategies, converters, call-backs.

Each sort is a group of entry points: the name of an entry point is what settings call the plug-in, and it leads to the
function itself. A program that is not installed as a package calls ``register``. Functions run in the process that
matches: in the service, in the command and in Spark's executors alike, so a package is to be installed on each machine.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from recado.errors import RecadoError

Function = TypeVar("Function")


class Plugins(Generic[Function]):
    """The plug-ins of one sort: ``group`` is that of the entry points, ``what`` the word for one."""

    def __init__(self, group: str, what: str) -> None:
        self.group, self.what = group, what
        self._known: dict[str, Function] = {}
        self._listed: list[str] | None = None

    def register(self, name: str, function: Function) -> None:
        """Make a function known under a name, in this process; an earlier one of that name is replaced."""
        self._known[name] = function

    def remove(self, name: str) -> None:
        self._known.pop(name, None)

    def __bool__(self) -> bool:
        """Is there any? Asked for each event, so it costs next to nothing."""
        return bool(self._known) or bool(self.names() if self._listed is None else self._listed)

    def names(self) -> list[str]:
        """All that there are, sorted; packages are looked for once a process."""
        if self._listed is None:
            self._listed = list(entry_points(group=self.group).names)
        return sorted({*self._known, *self._listed})

    def find(self, name: str) -> Function:
        """The function of that name; a RecadoError lists what there is."""
        if name not in self._known:
            for plugin in entry_points(group=self.group, name=name):
                try:
                    self._known[name] = plugin.load()
                except Exception as error:
                    raise RecadoError(f"the {self.what} {name!r} ({plugin.value}) cannot be loaded: {error}") from error
        if name not in self._known:
            close = get_close_matches(name, self.names(), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise RecadoError(f"there is no {self.what} {name!r}{hint}")
        return self._known[name]
