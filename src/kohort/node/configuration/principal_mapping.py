"""`ssl.principal.mapping.rules`: how the name in a client's certificate becomes its user name (KIP-371).

RULE:PATTERN/REPLACEMENT/[L|U], …: the first rule whose pattern matches the whole name gives the user's; L and U make it
lower or upper case. DEFAULT takes the name as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
