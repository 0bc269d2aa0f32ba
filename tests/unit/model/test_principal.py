"""A principal's text is Kafka's."""

import pytest

from kohort.model.principal import ANONYMOUS, Principal


def test_principal_is_read_from_its_own_text():
    assert Principal.parse(str(Principal("User", "CN=a:b,O=c"))) == Principal("User", "CN=a:b,O=c")
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_text_without_type_or_name_is_no_principal(text):
    with pytest.raises(ValueError, match="User:alice"):
        Principal.parse(text)
