"""One setting: what each kind takes as text and as a value of Python, and the sentence that refuses another."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import Any

import pytest

from kohort.model.setting import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    FUNCTION,
    INT,
    INT_MAX,
    LIST,
    LONG,
    OBJECT,
    PASSWORD,
    STRING,
    Setting,
    SettingsError,
    Table,
    WrongSetting,
    attributes,
    check_fields,
    read_texts,
    read_values,
    records,
    setting,
    settings_of,
    unknown,
    value_text,
)

COUNT = Setting(INT, 1, "", 1, 10, name="count")
WAIT = Setting(LONG, 1, "", 0, name="wait.ms")
RATIO = Setting(DOUBLE, 0.5, "", 0, 1, name="ratio")
IS_ON = Setting(BOOLEAN, False, "", name="is_on")
WORD = Setting(STRING, "all", "", choices=("all", "none"), name="word")
TEXT = Setting(STRING, "", "", name="text")
SECRET = Setting(PASSWORD, None, "", choices=("never",), name="secret")
POLICY = Setting(LIST, ("delete",), "", choices=("delete", "compact"), name="policy")
PLACES = Setting(LIST, (), "", pattern=r"\d+@\d+", expected="PARTITION@OFFSET, …", name="places")
DELAY = Setting(DURATION, 0, "", name="delay")


@pytest.mark.parametrize(
    ("made", "text", "value"),
    [
        (COUNT, " 10 ", 10),
        (COUNT, "+7", 7),
        (WAIT, "9223372036854775807", (1 << 63) - 1),
        (RATIO, "1e-1", 0.1),
        (IS_ON, "TRUE", True),
        (WORD, "None", "none"),
        (TEXT, " free ", "free"),
        (POLICY, "compact, delete,", ("compact", "delete")),
        (PLACES, "0@7, 12@99", ("0@7", "12@99")),
        (DELAY, "15m", 900_000),
        (DELAY, "2 H", 7_200_000),
        (DELAY, "250", 250),
    ],
)
def test_a_text_stands_for_a_value(made: Setting[Any], text: str, value: object) -> None:
    assert made.parse(text) == value


@pytest.mark.parametrize(
    ("made", "text", "sentence"),
    [
        (COUNT, "0", "count='0': expected a whole number from 1 to 10"),
        (COUNT, "11", "count='11': expected a whole number from 1 to 10"),
        (COUNT, "1_0", "count='1_0': expected a whole number from 1 to 10"),
        (COUNT, "٣", "count='٣': expected a whole number from 1 to 10"),
        (COUNT, "9" * 5000, f"count='{'9' * 79}…: expected a whole number from 1 to 10"),
        (WAIT, "-1", "wait.ms='-1': expected a whole number of milliseconds from 0 on"),
        (WAIT, "1s", "wait.ms='1s': expected a whole number of milliseconds from 0 on"),
        (RATIO, "nan", "ratio='nan': expected a number from 0 to 1"),
        (RATIO, "half", "ratio='half': expected a number from 0 to 1"),
        (IS_ON, "yes", "is_on='yes': expected true or false"),
        (WORD, "some", "word='some': expected all or none"),
        (SECRET, "hunter2", "secret=…: expected never"),
        (POLICY, "delete,shred", "policy='delete,shred': expected a list of delete, compact"),
        (POLICY, "", "policy='': expected a list of delete, compact"),
        (PLACES, "7", "places='7': expected PARTITION@OFFSET, …"),
        (DELAY, "soon", "delay='soon': expected a time such as 500ms, 10s, 15m or 2h"),
    ],
)
def test_a_text_that_stands_for_nothing_is_refused(made: Setting[Any], text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made.parse(text)
    assert str(refused.value) == sentence


class Index:
    """A whole number that is no int, as those of NumPy."""

    def __index__(self) -> int:
        return 7


LISTENER = Setting(OBJECT, None, "", cls=Index, expected="an Index", name="listener")
CALLBACK = Setting(FUNCTION, None, "", name="callback")
ACKS = Setting(STRING, "all", "", choices=("all", 1, 0), name="acks")


@pytest.mark.parametrize(
    ("made", "given", "value"),
    [
        (COUNT, Index(), 7),
        (RATIO, 1, 1),
        (IS_ON, False, False),
        (WORD, "none", "none"),
        (ACKS, 1, 1),
        (POLICY, ["delete"], ("delete",)),
        (LISTENER, None, None),
        (CALLBACK, len, len),
    ],
)
def test_a_value_of_python_is_taken_as_it_is_meant(made: Setting[Any], given: object, value: object) -> None:
    assert made.check(given) == value


async def asynchronous() -> None:
    """A function of the wrong kind."""


@pytest.mark.parametrize(
    ("made", "given", "kind", "sentence"),
    [
        (COUNT, 0, SettingsError, "count=0: expected a whole number from 1 to 10"),
        (COUNT, "7", WrongSetting, "count='7' is a str: expected a whole number from 1 to 10"),
        (COUNT, True, WrongSetting, "count=True is a bool: expected a whole number from 1 to 10"),
        (COUNT, 1.0, WrongSetting, "count=1.0 is a float: expected a whole number from 1 to 10"),
        (COUNT, None, WrongSetting, "count=None: expected a whole number from 1 to 10"),
        (RATIO, float("nan"), SettingsError, "ratio=nan: expected a number from 0 to 1"),
        (RATIO, "0.5", WrongSetting, "ratio='0.5' is a str: expected a number from 0 to 1"),
        (IS_ON, 1, WrongSetting, "is_on=1 is an int: expected true or false"),
        (WORD, "ALL", SettingsError, "word='ALL': expected all or none"),
        (ACKS, True, SettingsError, "acks=True: expected all, 1 or 0"),
        (TEXT, b"x", WrongSetting, "text=b'x' is a bytes: expected a str"),
        (TEXT, "\ud800", SettingsError, "text='\\ud800' has half of a surrogate pair, which UTF-8 cannot carry"),
        (SECRET, b"pw", SettingsError, "secret=…: expected never"),
        (POLICY, "delete", WrongSetting, "policy='delete' is a str: expected a list of delete, compact"),
        (POLICY, ["shred"], SettingsError, "policy=('shred',): expected a list of delete, compact"),
        (LISTENER, 7, WrongSetting, "listener=7 is an int: expected an Index"),
        (CALLBACK, "len", WrongSetting, "callback='len' is a str: expected a function"),
    ],
)
def test_another_value_is_refused_by_name(
    made: Setting[Any], given: object, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        made.check(given)
    assert (type(refused.value), str(refused.value)) == (kind, sentence)


def test_a_coroutine_function_is_no_plain_one() -> None:
    with pytest.raises(TypeError, match="is async: expected a plain function"):
        CALLBACK.check(asynchronous)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(TypeError) as refused:
        Setting(PASSWORD, "", "", name="sasl_password").check(b"hunter2")
    assert str(refused.value) == "sasl_password=… is a bytes: expected a str"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cuont", "a job has no setting 'cuont'; did you mean 'count'?"),
        ("Count", "a job has no setting 'Count'; did you mean 'count'?"),
        ("xyzzy", "a job has no setting 'xyzzy': there are count, wait.ms"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str, sentence: str) -> None:
    with pytest.raises(TypeError) as refused:
        Table("a job", [WAIT, COUNT]).find(name)
    assert str(refused.value) == sentence


def test_advice_stands_where_no_name_is_near() -> None:
    error = unknown("a sink", "flush", ["count"], noun="option", advice="every batch is flushed", spelling="Flush")
    assert str(error) == "a sink has no option 'Flush': every batch is flushed"


@pytest.mark.parametrize(
    ("name", "unit"),
    [("wait.ms", "milliseconds"), ("wait_ms", "milliseconds"), ("fetch_max_bytes", "bytes"), ("log.hours", "hours")],
)
def test_the_last_word_of_a_name_is_the_unit_of_a_number(name: str, unit: str) -> None:
    assert Setting(INT, 0, "", name=name).unit == unit
    assert not Setting(STRING, "", "", name=name).unit


class Base:
    num_threads = Setting[int](INT, 3, "how many", 1)


class Job(Base):
    """A configuration with settings as attributes."""

    def get(self, name: str) -> Any:
        return {"num.threads": 5}[name]


def test_an_attribute_is_the_value_in_force() -> None:
    assert Job().num_threads == 5
    assert attributes("a job", Job).find("num.threads").default == 3


@dataclass(frozen=True, kw_only=True)
class Options:
    """A dataclass of settings."""

    group_id: str = setting(MISSING, "the group", kind=STRING, aliases=("kafka.group.id",))
    num_threads: int = setting(3, "how many", 1, name="num.threads")
    wait_ms: int = setting(7, "how long", 0)
    other: object = None


def test_fields_of_a_dataclass_are_settings() -> None:
    known = settings_of(Options)
    assert [each.name for each in known.values()] == ["group_id", "num.threads", "wait_ms"]
    assert (known["wait_ms"].kind, known["wait_ms"].high) == (INT, INT_MAX)
    check_fields(Options(group_id="g"))
    with pytest.raises(TypeError, match="group_id=None: expected a str"):
        check_fields(Options(group_id=None))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"num\.threads=0: expected"):
        check_fields(Options(group_id="g", num_threads=0))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"num.threads": " 4 ", "kafka.group.id": "k", "unknown": "x"}, {"group_id": "k", "num_threads": 4}),
        ({"group_id": "g", "kafka.group.id": "k"}, {"group_id": "g"}),
        ({"group_id": ""}, {}),
    ],
)
def test_texts_are_read_by_the_first_name_that_is_given(texts: dict[str, str], found: dict[str, Any]) -> None:
    assert read_texts(Options, texts.get) == found


def test_a_text_is_refused_under_the_name_that_is_given() -> None:
    with pytest.raises(SettingsError, match=r"num\.threads='many': expected a whole number from 1"):
        read_texts(Options, {"num.threads": "many"}.get)
    with pytest.raises(SettingsError, match=r"wait_ms='': expected a whole number of milliseconds"):
        read_texts(Options, {"wait_ms": ""}.get)


def test_a_dataclass_is_filled_from_a_configuration_with_the_same_names() -> None:
    values: Any = {"group_id": "g", "num.threads": 2, "wait_ms": 0, "more": 1}
    assert read_values(Options, values) == {"group_id": "g", "num_threads": 2, "wait_ms": 0}


@pytest.mark.parametrize("secret", ["hunter2" * 6000, "hunter2\ud800", b"hunter2", ["hunter2"]])
def test_no_refusal_shows_a_password(secret: Any) -> None:
    with pytest.raises((SettingsError, WrongSetting), match="sasl_password") as refusal:
        Setting(PASSWORD, None, "", name="sasl_password").check(secret)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "text"), [(None, None), (True, "true"), (("a", "b"), "a,b"), (1.5e300, "1.5E300"), (7, "7"), ("x", "x")]
)
def test_a_value_is_written_as_kafka_writes_it(value: Any, text: str | None) -> None:
    assert value_text(value) == text


def test_a_text_is_the_choice_that_it_equals() -> None:
    class Colour(StrEnum):
        RED = "red"

    found = Setting(STRING, Colour.RED, "", choices=tuple(Colour), name="colour").check("red")
    assert type(found) is Colour


def test_rows_of_a_list_of_tables_are_refused_by_their_numbers() -> None:
    @dataclass
    class Row:
        groups: str = setting(MISSING, "a pattern", 1, kind=STRING)

        def __post_init__(self) -> None:
            check_fields(self)

    read = records("rows", Row)
    assert read([{"groups": "a"}, {"groups": "b"}]) == (Row("a"), Row("b"))
    for rows, sentence in (
        ("a", r"rows is no list of tables: write \[\[rows\]\] above each"),
        ([{"groups": "a"}, {}], "rows: row 2: it lacks groups: a pattern"),
        ([{"group": "a"}], "rows: row 1: it has no setting 'group'; did you mean 'groups'"),
        ([{"groups": ""}], "rows: row 1: groups='': expected a str that is not empty"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            read(rows)
