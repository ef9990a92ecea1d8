"""Writes docs/api from the docstrings of what ``recado`` exports: ``python docs/generate_api.py``.

A test compares the files with what this makes of the code, so they cannot get stale. It fails where something public
has no docstring.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

import recado

FOLDER = Path(__file__).parent / "api"

PAGES = {
    "client": (
        "The client",
        "How to use the event service from Python. [The page of the client](../client.md) tells the story.",
        "connect Client ClientSubscription Notification Gap connect_sync SyncClient SyncSubscription",
    ),
    "filters": (
        "Filters and matching",
        (
            "How to read, compare and evaluate filters ([the language](../filter-language.md)), and find the "
            "subscriptions that an event satisfies."
        ),
        "parse format_filter Filter matches covers overlaps Index",
    ),
    "model": (
        "Events and subscriptions",
        (
            "The values that everything speaks of, how they are read and written ([the two forms](../events.md)), and "
            "[the limits](../limits.md)."
        ),
        "Event Value read_event write_flat write_cloudevent Subscription read_subscription Limits LIMITS",
    ),
    "errors": (
        "Errors",
        "Whatever Recado raises on purpose is a `RecadoError`; its text is for a person.",
        (
            "RecadoError EventError FilterError SubscriptionError LimitError MissingExtraError ClientError "
            "AddressError Unreachable NotAllowed Refused Dropped SessionEnded TooManyInFlight"
        ),
    ),
}

MEMBERS = {
    "Index": "__len__ __contains__ add add_many remove match save load statistics",
    "ClientSubscription": "pending ready take wait finish cancel renew",
    "SyncSubscription": "pending cancel",
    "SyncClient": ("publish publish_all subscribe subscriptions renew cancel replay state pending delivered dropped"),
}
"""Where not everything without an underscore is for applications: what is."""

TYPES = {
    "client": {
        "recado.client.client": "Publishable Scope Semantic",
        "recado.filters.syntax": "Syntax",
        "recado.protocols.session.commands": "Existing OnCancelled",
    },
    "filters": {"recado.filters.syntax": "Syntax"},
}
"""Names of types that stand in signatures."""

_LONG = 100


def pages() -> dict[str, str]:
    """The text of every file in docs/api, by its name."""
    return {"index.md": _index()} | {f"{name}.md": _page(name, *page) for name, page in PAGES.items()}


def _index() -> str:
    lines = [
        "# API reference",
        "",
        "What programs may import from `recado`. All of it is typed. Names that are not here may change.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    for name, (title, _, names) in PAGES.items():
        lines.append(f"| [{title}]({name}.md) | {', '.join(f'`{one}`' for one in names.split())} |")
    lines += [
        "",
        "`recado.__version__` is the version. These pages are made from the code by `docs/generate_api.py`.",
        "",
    ]
    return "\n".join(lines)


def _page(page: str, title: str, introduction: str, names: str) -> str:
    parts = [f"# {title}", introduction]
    for name in names.split():
        parts.append(f"## `recado.{name}`")
        parts += _describe(name, getattr(recado, name))
    if page in TYPES:
        places = [(import_module(module), name) for module, names in TYPES[page].items() for name in names.split()]
        parts += ["## Types in these signatures", _code("\n".join(_assignment(*place)[0] for place in places))]
    return "\n\n".join(parts) + "\n"


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield _code(_signature(name, value))
        yield _prose(name, value)
    elif inspect.isclass(value):
        yield from _describe_class(name, value)
    else:
        yield from _describe_value(name)


def _describe_class(name: str, cls: type) -> Iterator[str]:
    if issubclass(cls, BaseException):
        yield f"A kind of {' and '.join(f'`{base.__name__}`' for base in cls.__bases__)}."
    elif issubclass(cls, msgspec.Struct):
        yield _code(_struct_signature(name, cls))
    elif name == "Index":
        yield _code("Index()")
    yield _prose(name, cls)
    for attribute, text in _attributes(cls):
        yield f"- **`{attribute}`**: {_markdown(text)}"
    for member in _member_names(name, cls):
        yield from _describe_member(cls, member)


def _describe_member(cls: type, member: str) -> Iterator[str]:
    static = inspect.getattr_static(cls, member)
    whole = f"{cls.__name__}.{member}"
    if isinstance(static, property):
        yield f"### `{member}: {_returns(static.fget)}`"
        yield _prose(whole, static)
        return
    function = static.__func__ if isinstance(static, staticmethod) else static
    yield f"### `{member}`"
    yield _code(_signature(member, function, "" if isinstance(static, staticmethod) else "self"))
    yield _prose(whole, function)


def _describe_value(name: str) -> Iterator[str]:
    """An alias or a constant: its line in the code, and the docstring below it."""
    code, text = _assignment(_module_of(name), name)
    if not text:
        raise SystemExit(f"recado.{name} has no docstring below it")
    yield _code(code)
    yield _markdown(text)


def _assignment(module: ModuleType, name: str) -> tuple[str, str]:
    body = ast.parse(inspect.getsource(module)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [ast.unparse(target) for target in targets] == [name]:
                return f"{name} = {ast.unparse(node.value)}", _text_of(after)
    raise SystemExit(f"{module.__name__} assigns no {name}")


def _module_of(name: str) -> ModuleType:
    tree = ast.parse(inspect.getsource(recado))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return import_module(node.module or "")
    raise SystemExit(f"recado imports no {name}")


def _member_names(name: str, cls: type) -> list[str]:
    if name in MEMBERS:
        return MEMBERS[name].split()
    own = vars(cls)
    fields = getattr(cls, "__struct_fields__", ())
    shown = [one for one, value in own.items() if not one.startswith("_") and _is_member(value) and one not in fields]
    return (["__getitem__"] if "__getitem__" in own else []) + shown


def _is_member(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | staticmethod)


def _attributes(cls: type) -> Iterator[tuple[str, str]]:
    """What is annotated in a class and has a docstring below it."""
    body = _body(cls)
    for line, after in itertools.pairwise(body):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and (text := _text_of(after)):
            yield f"{line.target.id}: {ast.unparse(line.annotation)}", text


def _body(cls: type) -> list[ast.stmt]:
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    return node.body


def _text_of(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


# --- signatures ------------------------------------------------------------------------------------------------------


def _signature(name: str, function: Callable[..., Any], bound: str = "") -> str:
    parameters = list(inspect.signature(function).parameters.values())
    if bound:
        parameters = parameters[1:]
    texts: list[str] = []
    for before, one in zip([None, *parameters], parameters, strict=False):
        if one.kind is one.KEYWORD_ONLY and (before is None or before.kind is not one.KEYWORD_ONLY):
            texts.append("*")
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        texts.append(f"{one.name}: {one.annotation}{default}")
    prefix = "async " if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else ""
    return _call(f"{prefix}def {name}", texts, f" -> {_returns(function)}")


def _default(value: Any) -> str:
    return "LIMITS" if value is recado.LIMITS else repr(value)


def _struct_signature(name: str, cls: type[msgspec.Struct]) -> str:
    texts = []
    for field in msgspec.structs.fields(cls):
        annotation = _annotation(cls, field.name)
        default = ""
        if field.default is not msgspec.NODEFAULT:
            default = f" = {_default_of(field.name, cls) or repr(field.default)}"
        elif field.default_factory is not msgspec.NODEFAULT:
            default = f" = {field.default_factory()!r}"
        texts.append(f"{field.name}: {annotation}{default}")
    return _call(name, texts, "")


def _annotation(cls: type, field: str) -> str:
    found = (inspect.get_annotations(base) for base in cls.__mro__)
    return next(str(own[field]) for own in found if field in own)


def _default_of(field: str, cls: type) -> str:
    """The default as the code spells it: TRUE says more than the tree that it is."""
    for line in _body(cls):
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and line.target.id == field
            and line.value
        ):
            return ast.unparse(line.value)
    return ""


def _returns(function: Any) -> str:
    return str(inspect.signature(function).return_annotation)


def _call(head: str, texts: list[str], tail: str) -> str:
    short = f"{head}({', '.join(texts)}){tail}"
    if len(short) <= _LONG:
        return short
    return "\n".join([f"{head}(", *(f"    {text}," for text in texts), f"){tail}"])


# --- prose -----------------------------------------------------------------------------------------------------------


def _code(text: str) -> str:
    quoted = text.replace("'", '"')  # as the formatter would have it
    return f"```python\n{quoted}\n```"


def _prose(name: str, value: Any) -> str:
    text = value.__doc__
    if not text or text.startswith(f"{name}("):
        raise SystemExit(f"{name} is public and has no docstring")
    return _markdown(inspect.cleandoc(text))


def _markdown(text: str) -> str:
    """Docstrings are nearly Markdown: code is in double backquotes, and pages are named by their path."""
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    return re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](../\1)", text)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
