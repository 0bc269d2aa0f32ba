"""The user name of a client's certificate: its subject as Java writes it, and `ssl.principal.mapping.rules` (KIP-371).

Rules and ACLs that were written for Apache Kafka have the text of Java's `X500Principal.getName()` (RFC 2253).
RULE:PATTERN/REPLACEMENT/[L|U], …: the first rule whose pattern matches the whole name gives the user's; L and U make it
lower or upper case. DEFAULT takes the name as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}  # fmt: skip
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""The character sets of DER's strings: UTF8, Printable, T61, IA5, Universal, BMP."""

_ESCAPED = frozenset(',=+<>#;"\\')
_VERSION, _SEQUENCE = 0xA0, 0x30


def subject(certificate: bytes) -> str:
    """Return the subject of a certificate in DER. Raises ValueError."""
    try:
        ((_, _, whole),) = _elements(certificate)
        fields = list(_elements(next(_elements(whole))[2]))
        if fields[0][0] == _VERSION:
            del fields[0]
        # serial number, algorithm, issuer, validity, subject
        names = [_relative(value) for _, _, value in _elements(fields[4][2])]
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError("the certificate is malformed") from error
    return ",".join(reversed(names))


def _relative(content: bytes) -> str:
    """Return one part of a name, which may have several attributes."""
    return "+".join(_attribute(value) for _, _, value in _elements(content))


def _attribute(content: bytes) -> str:
    (_, _, kind), (tag, whole, value) = _elements(content)
    number = _object_id(kind)
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _ENCODINGS:
        return f"{keyword or number}=#{whole.hex()}"
    text = value.decode(_ENCODINGS[tag])
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in text)
    inner = escaped.strip(" ")
    if not inner:
        return f"{keyword}={escaped.replace(' ', chr(92) + ' ')}"
    before, _, after = escaped.partition(inner)
    return f"{keyword}={before.replace(' ', chr(92) + ' ')}{inner}{after.replace(' ', chr(92) + ' ')}"


def _object_id(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the elements of DER one after the other: tag, whole element, value."""
    at = 0
    while at < len(content):
        start, tag, length = at, content[at], content[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(content[at : at + size], "big")
            at += size
        if at + length > len(content):
            raise IndexError("an element ends behind its end")
        yield tag, content[start : at + length], content[at : at + length]
        at += length


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None takes the name as it is."""
    replacement: str
    case: str


class PrincipalMapping:
    """The rules in their order. Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise ValueError(f"{text[at:].strip()!r} begins with no rule: expected RULE:PATTERN/REPLACEMENT/[L|U]")
            at = found.end()
            self._rules.append(_rule(found))

    def name(self, distinguished: str) -> str:
        """Return the user name of a certificate's name. Raises ValueError where no rule is for it."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return distinguished
            if found := pattern.fullmatch(distinguished):
                name = found.expand(replacement)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        raise ValueError(f"ssl.principal.mapping.rules has no rule for {distinguished!r}")


def _rule(found: re.Match[str]) -> _Rule:
    is_default, pattern, replacement, case = found.groups()
    if is_default:
        return _Rule(None, "", "")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    # $1 is a group of the pattern if it has so many, else itself.
    parts = re.split(r"\$(\d)", replacement.replace("\\", "\\\\"))
    for at in range(1, len(parts), 2):
        parts[at] = f"\\g<{parts[at]}>" if int(parts[at]) <= compiled.groups else f"${parts[at]}"
    return _Rule(compiled, "".join(parts), case)
