"""XXH3 of 64 bits, without a seed: the hash by which Kafka's coordinator distinguishes topic metadata (KIP-1101).

From the algorithm's specification (xxHash, doc/xxhash_spec.md): short inputs are mixed with a fixed secret, those
above 240 bytes go through eight accumulators, 64 bytes at a time. For a few kilobytes at a time, not for data.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, unpack_from

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
    "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb17"
    "0ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK = (1 << 64) - 1
_PRIME_32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME_64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_STRIPE, _STRIPES_OF_BLOCK = 64, 16
_START = (
    _PRIME_32[2], _PRIME_64[0], _PRIME_64[1], _PRIME_64[2], _PRIME_64[3], _PRIME_32[1], _PRIME_64[4], _PRIME_32[0],
)  # fmt: skip
_eight = Struct("<8Q").unpack_from
_KEYS = tuple(_eight(_SECRET, 8 * index) for index in range(_STRIPES_OF_BLOCK))
_SCRAMBLE_KEY = _eight(_SECRET, len(_SECRET) - _STRIPE)
_LAST_KEY = _eight(_SECRET, len(_SECRET) - _STRIPE - 7)


def xxh3_64(content: bytes) -> int:
    """Return the hash of `content`, from 0 up to 2**64."""
    size = len(content)
    if size > 240:
        return _long(content)
    if size > 16:
        return _middle(content)
    if size > 8:
        low = _u64(content, 0) ^ _secret(24) ^ _secret(32)
        high = _u64(content, size - 8) ^ _secret(40) ^ _secret(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _folded(low, high))
    if size > 3:
        first, last = unpack_from("<I", content)[0], unpack_from("<I", content, size - 4)[0]
        return _rrmxmx((last + (first << 32)) ^ _secret(8) ^ _secret(16), size)
    if size:
        combined = content[0] << 16 | content[size >> 1] << 24 | content[-1] | size << 8
        return _final(combined ^ unpack_from("<I", _SECRET)[0] ^ unpack_from("<I", _SECRET, 4)[0])
    return _final(_secret(56) ^ _secret(64))


def _u64(content: bytes, position: int) -> int:
    return int.from_bytes(content[position : position + 8], "little")


def _secret(position: int) -> int:
    return _u64(_SECRET, position)


def _folded(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _avalanche(number: int) -> int:
    number &= _MASK
    number ^= number >> 37
    number = number * _PRIME_MX1 & _MASK
    return number ^ number >> 32


def _final(number: int) -> int:
    number ^= number >> 33
    number = number * _PRIME_64[1] & _MASK
    number ^= number >> 29
    number = number * _PRIME_64[2] & _MASK
    return number ^ number >> 32


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _MASK


def _rrmxmx(number: int, size: int) -> int:
    number ^= _rotated(number, 49) ^ _rotated(number, 24)
    number = number * _PRIME_MX2 & _MASK
    number ^= (number >> 35) + size
    number = number * _PRIME_MX2 & _MASK
    return number ^ number >> 28


def _mixed(content: bytes, position: int, secret: int) -> int:
    return _folded(_u64(content, position) ^ _secret(secret), _u64(content, position + 8) ^ _secret(secret + 8))


def _middle(content: bytes) -> int:
    size = len(content)
    total = size * _PRIME_64[0]
    if size > 128:
        total += sum(_mixed(content, at, at) for at in range(0, 128, 16))
        total = _avalanche(total)
        total += sum(_mixed(content, at, at - 128 + 3) for at in range(128, size // 16 * 16, 16))
        return _avalanche(total + _mixed(content, size - 16, 136 - 17))
    # From the middle to both ends, as far as there is anything.
    for half in range((size - 1) // 32, -1, -1):
        total += _mixed(content, 16 * half, 32 * half) + _mixed(content, size - 16 * (half + 1), 32 * half + 16)
    return _avalanche(total)


def _long(content: bytes) -> int:
    size = len(content)
    sums = list(_START)
    stripes = (size - 1) // _STRIPE
    for stripe in range(stripes):
        place = stripe % _STRIPES_OF_BLOCK
        _accumulate(sums, _eight(content, stripe * _STRIPE), _KEYS[place])
        if place == _STRIPES_OF_BLOCK - 1:
            for lane, key in enumerate(_SCRAMBLE_KEY):
                old = sums[lane]
                sums[lane] = (old ^ old >> 47 ^ key) * _PRIME_32[0] & _MASK
    _accumulate(sums, _eight(content, size - _STRIPE), _LAST_KEY)
    total = size * _PRIME_64[0]
    for lane in range(0, 8, 2):
        at = 11 + 8 * lane
        total += _folded(sums[lane] ^ _secret(at), sums[lane + 1] ^ _secret(at + 8))
    return _avalanche(total)


def _accumulate(sums: list[int], stripe: Iterable[int], keys: tuple[int, ...]) -> None:
    for lane, word in enumerate(stripe):
        key = word ^ keys[lane]
        sums[lane ^ 1] = sums[lane ^ 1] + word & _MASK
        sums[lane] = sums[lane] + (key & 0xFFFFFFFF) * (key >> 32) & _MASK
