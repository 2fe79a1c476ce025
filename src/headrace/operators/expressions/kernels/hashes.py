"""Digests and hash values, the same as Spark's."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from headrace.errors import InternalError
from headrace.model.digits import digits_of
from headrace.model.expressions.constants import charset, sha2_bits
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each

_MASK = 2**64 - 1
_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SEED = 42
_SHA2 = {224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _of_bytes(function: Callable[[bytes], str | int]) -> Kernel:
    """Make a kernel of a function of the bytes of a text or a BINARY."""
    return lambda args: each(lambda value: function(_bytes(value)), args, args.types)


def _base64(data: bytes) -> str:
    """Return Base64 in lines of 76 characters, as MIME and Spark write it."""
    return base64.encodebytes(data).decode().rstrip("\n").replace("\n", "\r\n")


def _sha2(args: Arguments) -> pl.Expr:
    bits = args.number(1)
    if bits is None:
        return args.null()
    digest = _SHA2[sha2_bits(bits)]
    return each(lambda value, _: digest(_bytes(value)).hexdigest(), args, args.types)


def _xxhash64(args: Arguments) -> pl.Expr:
    types = args.types

    def hash_row(*values: Any) -> int:
        return xxhash64(values, types)

    return each(hash_row, args, types, skip_null=False)


def xxhash64(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """Return Spark's xxhash64 of a row: each value is hashed with the hash of those before it; NULL changes nothing."""
    seed = _SEED
    for value, type_ in zip(values, types, strict=True):
        if value is not None:
            seed = _hash(_packed(value, type_), seed)
    return seed - 2**64 if seed >= 2**63 else seed


def _packed(value: Any, type_: DataType) -> bytes:
    match type_:
        case Type.STRING | Type.BINARY:
            return _bytes(value)
        case Type.BOOLEAN | Type.INT | Type.DATE:
            return struct.pack("<i", int(value))
        case Type.FLOAT:
            return struct.pack("<f", value + 0.0)  # -0.0 is 0.0
        case Type.DOUBLE:
            return struct.pack("<d", value + 0.0)
        case DecimalType(precision=precision, scale=scale):
            digits = digits_of(value, scale) if isinstance(value, Decimal) else value
            if precision <= 18:
                return struct.pack("<q", digits)
            return int.to_bytes(digits, (digits + (digits < 0)).bit_length() // 8 + 1, signed=True)
        case ArrayType() | MapType() | StructType():
            raise InternalError("xxhash64 of a nested value")
        case Type.BIGINT | Type.TIMESTAMP | Type.INTERVAL | Type.NULL:
            return struct.pack("<q", value)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mixed(value: int) -> int:
    return _rotated(value * _PRIMES[1] & _MASK, 31) * _PRIMES[0] & _MASK


def _hash(data: bytes, seed: int) -> int:
    """Return XXH64 of some bytes."""
    first, second, third, fourth, fifth = _PRIMES
    position, size = 0, len(data)
    if size >= 32:
        lanes = [seed + first + second, seed + second, seed, seed - first]
        while position + 32 <= size:
            for lane, word in enumerate(struct.unpack_from("<4Q", data, position)):
                lanes[lane] = _rotated(lanes[lane] + word * second & _MASK, 31) * first & _MASK
            position += 32
        result = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            result = ((result ^ _mixed(lane)) * first + fourth) & _MASK
    else:
        result = seed + fifth & _MASK
    result = result + size & _MASK
    while position + 8 <= size:
        (word,) = struct.unpack_from("<Q", data, position)
        result = (_rotated(result ^ _mixed(word), 27) * first + fourth) & _MASK
        position += 8
    if position + 4 <= size:
        (word,) = struct.unpack_from("<I", data, position)
        result = (_rotated(result ^ (word * first & _MASK), 23) * second + third) & _MASK
        position += 4
    for byte in data[position:]:
        result = _rotated(result ^ (byte * fifth & _MASK), 11) * first & _MASK
    result = (result ^ result >> 33) * second & _MASK
    result = (result ^ result >> 29) * third & _MASK
    return result ^ result >> 32


def _unbase64(text: str) -> bytes | None:
    kept = re.sub(r"[^A-Za-z0-9+/]", "", text.split("=", 1)[0])
    return None if len(kept) % 4 == 1 else base64.b64decode(kept + "=" * (-len(kept) % 4))


def _unhex(text: str) -> bytes | None:
    digits = text if len(text) % 2 == 0 else f"0{text}"
    return bytes.fromhex(digits) if re.fullmatch(r"[0-9A-Fa-f]*", digits) else None


def _encode(args: Arguments) -> pl.Expr:
    name = args.text(1)
    if name is None:
        return args.null()
    known, mark = charset(name), b"\xfe\xff" if charset(name) == "utf-16" else b""
    written = "utf-16-be" if mark else known
    return each(lambda text, _: mark + text.encode(written, "replace") if text else b"", args, [Type.STRING])


def _decode(args: Arguments) -> pl.Expr:
    name = args.text(1)
    if name is None:
        return args.null()
    known = charset(name)

    def decode(data: bytes, _: str) -> str:
        order = "utf-16-be" if known == "utf-16" and data[:2] not in (b"\xfe\xff", b"\xff\xfe") else known
        return data.decode(order, "replace")

    return each(decode, args, [Type.BINARY, Type.STRING])


HASHES: dict[str, Kernel] = {
    "md5": _of_bytes(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    "sha1": _of_bytes(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
    "sha2": _sha2,
    "crc32": _of_bytes(zlib.crc32),
    "xxhash64": _xxhash64,
    "base64": _of_bytes(_base64),
    "unbase64": lambda args: each(_unbase64, args, [Type.STRING]),
    "unhex": lambda args: each(_unhex, args, [Type.STRING]),
    "encode": _encode,
    "decode": _decode,
}
