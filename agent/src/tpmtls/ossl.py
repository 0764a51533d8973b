"""The structures that OpenSSL 3 and its providers pass to each other (openssl/core.h)."""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import TYPE_CHECKING, Any

from tpmtls.libssl import handshake, keep_forever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    # number in core_dispatch.h, function, result, arguments
    Functions = Iterable[tuple[int, Callable[..., Any], Any, tuple[Any, ...]]]


class Dispatch(Structure):
    """OSSL_DISPATCH: a function under its number."""

    _fields_ = [("function_id", c_int), ("function", c_void_p)]


class Algorithm(Structure):
    """OSSL_ALGORITHM: names, and the functions that implement them."""

    _fields_ = [
        ("names", c_char_p),
        ("properties", c_char_p),
        ("implementation", POINTER(Dispatch)),
        ("description", c_char_p),
    ]


class Param(Structure):
    """OSSL_PARAM: one value, asked for or given."""

    _fields_ = [
        ("key", c_char_p),
        ("data_type", c_uint),
        ("data", c_void_p),
        ("data_size", c_size_t),
        ("return_size", c_size_t),
    ]


INTEGER, UNSIGNED, TEXT, OCTETS = 1, 2, 4, 5  # OSSL_PARAM data types


def _each(parameters: Any) -> Iterator[Any]:
    index = 0
    while parameters and parameters[index].key is not None:
        yield parameters[index]
        index += 1


def values(parameters: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield name and value of each entry of an OSSL_PARAM array."""
    for entry in _each(parameters):
        if entry.data_type in (INTEGER, UNSIGNED):
            data = ctypes.string_at(entry.data, entry.data_size)
            yield entry.key, int.from_bytes(data, sys.byteorder, signed=entry.data_type == INTEGER)
        elif entry.data_type in (TEXT, OCTETS):
            yield entry.key, ctypes.string_at(entry.data, entry.data_size)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing may be raised into C: an exception is 0, and told to the handshake's caller."""

    def call(*arguments: Any, told: Any = handshake) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:  # told to the handshake's caller instead
            told.error = error
            return 0

    return call


def answer(parameters: Any, answers: Mapping[bytes, int | bytes]) -> None:
    """Fill in what an OSSL_PARAM array asks for, as far as it is known: numbers and text."""
    for entry in _each(parameters):
        known = answers.get(entry.key)
        if isinstance(known, int):
            value = known.to_bytes(entry.data_size, sys.byteorder)
            entry.return_size = len(value)
        elif known and len(known) < entry.data_size:
            value = known + b"\0"
            entry.return_size = len(known)
        else:
            continue
        ctypes.memmove(entry.data, value, len(value))


def constant(*entries: tuple[bytes, int]) -> Callable[..., int]:
    """Return a function that answers with a constant list of parameters."""
    described = (Param * (len(entries) + 1))(
        *(Param(name, kind, None, 0, 0) for name, kind in entries)
    )
    return lambda *_: ctypes.addressof(described)


def table(functions: Functions) -> Any:
    """Lay out a dispatch table; its callbacks live as long as the process."""
    functions = tuple(functions)
    entries = (Dispatch * (len(functions) + 1))()
    for entry, (number, function, result, arguments) in zip(entries, functions, strict=False):
        callback = CFUNCTYPE(result, *arguments)(_guarded(function))
        keep_forever(callback)
        entry.function_id, entry.function = number, ctypes.cast(callback, c_void_p)
    return entries
