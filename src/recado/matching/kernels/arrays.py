"""Many arrays as one argument of a kernel.

numba hands an array over as seven numbers or more. A function of forty arrays has three hundred parameters then, and
compiling such functions and the calls between them took most of the time of compiling. So arrays that belong together
are the fields of one object:

    class Store(Arrays):
        words = ArrayField(np.int64)
        lists = ArrayField(np.int32, 2)

Python reads and assigns them as it would any attribute. Assigning also enters the array's address and shape into a
table. ``store.handle``, the address of that table, is all that a kernel takes: a number is handed over in less time
than an array. ``open_store = opener(Store)`` makes of it, inside a kernel, an object whose fields are the arrays again.
While a kernel runs nobody may assign (the index's lock sees to that), so the compiler may read an address once and
keep it. Whoever calls a kernel keeps the object, or the table goes.

A field has one type for ever: an array of another type or order, or a read-only one, is refused when it is assigned.

Inside a kernel a field is a *plain* array: an address and its lengths, nothing to count references by and no strides.
Reading an element takes few instructions of LLVM, because an index is never counted from the end: **a negative index
is out of bounds**. ``plain(array)`` makes the same of an array that is an argument.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import types as numba_types
from numba.core.cgutils import unpack_tuple
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import infer_getattr, intrinsic, lower_builtin, lower_getattr, models, register_model
from numba.extending import lower_getattr_generic as lower_any_attribute
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from recado.matching.kernels.jit import PLAIN

Array = NDArray[Any]
types: Any = numba_types
_PLAIN: WeakValueDictionary[int, Arrays] = WeakValueDictionary()  # where kernels are plain Python: whose a handle is
COLUMNS = 3  # of a table: address, length, width


class ArrayField:
    """An attribute that holds an array of one type and one or two dimensions."""

    def __init__(self, dtype: type, dimensions: int = 1) -> None:
        self.dtype, self.dimensions = np.dtype(dtype), dimensions
        self.name, self.place = "", 0

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.place = fields_of(owner).index(self)

    if TYPE_CHECKING:  # without it Python reads the instance's own dictionary, which takes a fifth of the time

        def __get__(self, instance: Arrays, owner: type) -> Array: ...

    def __set__(self, instance: Arrays, array: Array) -> None:
        if array.dtype != self.dtype or array.ndim != self.dimensions:
            raise ValueError(f"array {self.name!r} is of {array.dtype} with {array.ndim} dimensions")
        if not array.flags.carray:
            raise ValueError(f"array {self.name!r} cannot be written, or does not lie in one aligned piece")
        instance.__dict__[self.name] = array
        instance.table_of_fields[self.place] = _address_of(array), array.shape[0], array.shape[-1]
        instance.assignments += 1


def _address_of(array: Array) -> int:
    buffer: Any = array
    return addressof(c_char.from_buffer(buffer)) if array.size else 0  # faster than ``array.ctypes.data``


def fields_of(owner: type) -> list[ArrayField]:
    every = [field for base in reversed(owner.__mro__) for field in vars(base).values()]
    return [field for field in every if isinstance(field, ArrayField)]


class Arrays:
    """An object whose fields are the arrays of kernels; ``handle`` tells them where these are.

    ``assignments`` grows with each assignment: as long as it is the same, so are all arrays and their sizes.
    """

    field_count = 0

    def __init_subclass__(cls) -> None:
        cls.field_count = len(fields_of(cls))

    def __init__(self) -> None:
        self.table_of_fields: Array = np.zeros((self.field_count, COLUMNS), np.int64)
        self.handle = _address_of(self.table_of_fields)
        self.assignments = 0
        if PLAIN:
            _PLAIN[self.handle] = self


class PlainType(numba_types.Type):
    """What numba knows of a plain array."""

    def __init__(self, dtype: Any, dimensions: int) -> None:
        self.dtype, self.dimensions = dtype, dimensions
        super().__init__(f"plain({dtype}, {dimensions})")


@register_model(PlainType)
class _Plain(models.StructModel):  # type: ignore[misc]  # numba has no types
    def __init__(self, manager: Any, kind: PlainType) -> None:
        lengths = [("length", types.intp), ("width", types.intp)][: kind.dimensions]
        super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), *lengths])


def _make_plain(context: Any, builder: Any, kind: PlainType, data: Any, shape: list[Any]) -> Any:
    value = ir.Constant(context.get_value_type(kind), ir.Undefined)
    for place, part in enumerate([data, *shape[: kind.dimensions]]):
        value = builder.insert_value(value, part, place)
    return value


def data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of the elements of an array, plain or not."""
    return (
        builder.extract_value(array, 0)
        if isinstance(kind, PlainType)
        else make_array(kind)(context, builder, array).data
    )


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], PlainType) and not kws and _is_index(*args):
            return signature(args[0].dtype, *args)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        array, index, value = args
        if isinstance(array, PlainType) and not kws and _is_index(array, index):
            if isinstance(value, types.Float) and not isinstance(array.dtype, types.Float):
                return None
            return signature(types.none, array, index, array.dtype)
        return None


def _is_index(array: PlainType, index: Any) -> bool:
    parts = index.types if isinstance(index, types.BaseTuple) else (index,)
    return len(parts) == array.dimensions and all(isinstance(part, types.Integer) for part in parts)


def _address(context: Any, builder: Any, kinds: Any, array: Any, index: Any) -> Any:
    kind, index_kind = kinds[:2]
    parts, part_kinds = [index], [index_kind]
    if isinstance(index_kind, types.BaseTuple):
        parts, part_kinds = unpack_tuple(builder, index), list(index_kind.types)
    parts = [context.cast(builder, part, of, types.intp) for part, of in zip(parts, part_kinds, strict=True)]
    at = parts[-1]
    if kind.dimensions == 2:
        at = builder.add(builder.mul(parts[0], builder.extract_value(array, 2), flags=["nsw"]), at, flags=["nsw"])
    return builder.gep(builder.extract_value(array, 0), [at], inbounds=True)


def _lower_items(index_kind: Any) -> None:
    @lower_builtin(operator.getitem, PlainType, index_kind)
    def get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args, *arguments)
        return context.unpack_value(builder, signature.args[0].dtype, address)

    @lower_builtin(operator.setitem, PlainType, index_kind, types.Any)
    def put(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args, *arguments[:2])
        context.pack_value(builder, signature.args[0].dtype, arguments[2], address)
        return context.get_dummy_value()


for _index_kind in (types.Integer, types.BaseTuple):
    _lower_items(_index_kind)


@infer_getattr
class _Shape(AttributeTemplate):  # type: ignore[misc]
    key = PlainType

    def resolve_shape(self, kind: PlainType) -> Any:
        return types.UniTuple(types.intp, kind.dimensions)


@lower_getattr(PlainType, "shape")
def _shape(context: Any, builder: Any, kind: PlainType, array: Any) -> Any:
    lengths = [builder.extract_value(array, 1 + axis) for axis in range(kind.dimensions)]
    return context.make_tuple(builder, types.UniTuple(types.intp, kind.dimensions), lengths)


class ArraysType(numba_types.Type):
    """What numba knows of a subclass of ``Arrays``: the places and types of its fields."""

    def __init__(self, owner: type[Arrays]) -> None:
        self.fields = {
            field.name: (field.place, PlainType(from_dtype(field.dtype), field.dimensions))
            for field in fields_of(owner)
        }
        super().__init__(owner.__name__)


@register_model(ArraysType)
class _Handle(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: ArraysType) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = ArraysType

    def generic_resolve(self, kind: ArraysType, name: str) -> Any:
        return kind.fields[name][1] if name in kind.fields else None


@lower_any_attribute(ArraysType)
def _field(context: Any, builder: Any, kind: ArraysType, handle: Any, name: str) -> Any:
    place, array_type = kind.fields[name]
    never_changes = builder.module.add_metadata([])

    def entry(column: int) -> Any:
        at = builder.gep(handle, [ir.IntType(64)(place * COLUMNS + column)])
        value = builder.load(at)
        value.set_metadata("invariant.load", never_changes)
        return value

    data = builder.inttoptr(entry(0), context.get_data_type(array_type.dtype).as_pointer())
    return _make_plain(context, builder, array_type, data, [entry(1 + axis) for axis in range(array_type.dimensions)])


def opener(owner: type[Arrays]) -> Callable[[Any], Any]:
    """The function that turns, inside a kernel, the handle of such an object into the object."""
    if PLAIN:
        return lambda handle: _PLAIN[handle]
    kind = ArraysType(owner)

    @intrinsic
    def opened(_context: Any, _handle: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())

        return kind(types.int64), generate

    result: Callable[[Any], Any] = opened
    return result


@intrinsic
def plain(_context: Any, array: Any) -> Any:
    """Inside a kernel: an argument that is an array, of contiguous elements, as fields are."""
    if not isinstance(array, types.Array) or array.layout != "C":
        return None
    kind = PlainType(array.dtype, array.ndim)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = make_array(signature.args[0])(context, builder, arguments[0])
        shape = [builder.extract_value(whole.shape, axis) for axis in range(kind.dimensions)]
        return _make_plain(context, builder, kind, whole.data, shape)

    return kind(array), generate


if PLAIN:
    plain = lambda array: array  # noqa: E731
