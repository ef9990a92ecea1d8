"""Planted bugs: a piece of a function's text is replaced, and what runs is the real code with that one error in it.

Tests that must find errors are tried on these: each has to be found.
"""

import inspect
import sys
import textwrap


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
