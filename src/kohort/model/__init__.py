"""The nouns of a group: frozen values that every layer shares and that know nothing of bytes or time."""
