"""Many arrays as one argument of a kernel.

numba hands an array over as seven numbers or more. A function of forty arrays has three hundred parameters then, and
compiling such functions and the calls between them took most of the time of compiling. So arrays that belong together
are the fields of one object:

    class Store(Arrays):
        words = ArrayField(np.int64)
        lists = ArrayField(np.int32, 2)

Python reads and assigns them as it would any attribute. Assigning also enters the array's address and shape into
``store.handle``, which is all that a kernel takes; ``open_store = opener(Store)`` makes of it, inside a kernel, an
object whose fields are the arrays again. While a kernel runs nobody may assign (the index's lock sees to that), so
the compiler may read an address once and keep it.

A field has one type for ever: an array of another type or order, or a read-only one, is refused when it is assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from recado.matching.jit import PLAIN

Array = NDArray[Any]
_PLAIN: WeakValueDictionary[int, Arrays] = WeakValueDictionary()  # where kernels are plain Python: whose a handle is
COLUMNS = 3  # of a handle: address, length, width


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
        buffer: Any = array
        address = addressof(c_char.from_buffer(buffer)) if array.size else 0  # faster than ``array.ctypes.data``
        instance.__dict__[self.name] = array
        instance.handle[self.place] = address, array.shape[0], array.shape[-1]
        instance.assignments += 1


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
        self.handle: Array = np.zeros((self.field_count, COLUMNS), np.int64)
        self.assignments = 0
        if PLAIN:
            _PLAIN[id(self.handle)] = self


class ArraysType(types.Type):
    """What numba knows of a subclass of ``Arrays``: the places and types of its fields."""

    def __init__(self, owner: type[Arrays]) -> None:
        self.fields = {
            field.name: (field.place, types.Array(from_dtype(field.dtype), field.dimensions, "C"))
            for field in fields_of(owner)
        }
        super().__init__(owner.__name__)


@register_model(ArraysType)
class _Handle(models.PrimitiveModel):  # type: ignore[misc]  # numba has no types
    def __init__(self, manager: Any, kind: ArraysType) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = ArraysType

    def generic_resolve(self, kind: ArraysType, name: str) -> Any:
        return kind.fields[name][1] if name in kind.fields else None


@lower_getattr_generic(ArraysType)
def _field(context: Any, builder: Any, kind: ArraysType, handle: Any, name: str) -> Any:
    place, array_type = kind.fields[name]
    never_changes = builder.module.add_metadata([])

    def entry(column: int) -> Any:
        at = builder.gep(handle, [ir.IntType(64)(place * COLUMNS + column)])
        value = builder.load(at)
        value.set_metadata("invariant.load", never_changes)
        return value

    array = make_array(array_type)(context, builder)
    element = context.get_data_type(array_type.dtype)
    size = context.get_abi_sizeof(element)
    shape = [entry(1), entry(2)][: array_type.ndim]
    strides = [context.get_constant(types.intp, size)]
    if array_type.ndim == 2:
        strides.insert(0, builder.mul(shape[1], strides[0]))
    populate_array(
        array,
        data=builder.inttoptr(entry(0), element.as_pointer()),
        shape=shape,
        strides=strides,
        itemsize=context.get_constant(types.intp, size),
        meminfo=None,
    )
    return array._getvalue()  # noqa: SLF001 - numba has no other name for it


def opener(owner: type[Arrays]) -> Callable[[Any], Any]:
    """The function that turns, inside a kernel, the handle of such an object into the object."""
    if PLAIN:
        return lambda handle: _PLAIN[id(handle)]
    kind = ArraysType(owner)

    @intrinsic
    def opened(_context: Any, handle: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return make_array(signature.args[0])(context, builder, arguments[0]).data

        return kind(handle), generate

    result: Callable[[Any], Any] = opened
    return result
