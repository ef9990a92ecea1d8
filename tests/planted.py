"""Planted bugs: a piece of a function's text is replaced, and what runs is the real code with that one error in it.

Tests that must find errors are tried on these: each has to be found.
"""

import inspect
import sys
import textwrap

from recado.errors import RecadoError


def mutate(monkeypatch, function, old, new):
    """Put the error in, in the class or wherever the function is known; the function as it is now."""
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) >= 1, f"{function.__qualname__} has changed: {old!r} is not in it"
    module = sys.modules[function.__module__]
    space = {}
    exec(compile(text.replace(old, new, 1), module.__file__, "exec"), module.__dict__, space)
    owner, _, name = function.__qualname__.rpartition(".")
    if owner:
        monkeypatch.setattr(getattr(module, owner), name, space[name])
    else:
        replace(monkeypatch, function, space[name])
    return space[name]


def replace(monkeypatch, function, wrong):
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("recado."):
            for name in [name for name, value in list(vars(module).items()) if value is function]:
                monkeypatch.setattr(module, name, wrong)


def scripts(module):
    """The scripted runs of a module of tests, with their values: those that need nothing, or one of several values."""
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test):
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            if any(mark.name == "long" for mark in getattr(test, "pytestmark", ())):
                continue
            if not marks and not inspect.signature(test).parameters:
                yield test, ()
            elif len(marks) == 1 and "," not in str(marks[0].args[0]):
                values = [value for value in marks[0].args[1] if not getattr(value, "marks", ())]
                yield from ((test, (value,)) for value in values)


def is_found(runs):
    """Does one of the runs notice the error that is in the code now?"""
    for run, values in runs:
        try:
            run(*values)
        except (AssertionError, AttributeError, LookupError, RecadoError, TypeError, ValueError):
            return True
    return False
