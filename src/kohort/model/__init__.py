"""The nouns of a group: frozen values that every layer shares. They know nothing of bytes or time."""
