"""Which decoder a process takes: the plain one for its first rows, the compiled one from then on."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort.client.decode import plain_decoder
from kohort.client.decode.arrow_decoder import default_decoder
from kohort.spark.rows.read_rows import Decoders


def test_the_first_rows_of_a_process_do_not_load_the_compiled_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kohort.client.decode.numba_decoder", raising=False)
    decoders = Decoders()
    assert decoders.for_rows(10_000) is plain_decoder.decode
    assert decoders.for_rows(10_000) is plain_decoder.decode
    assert decoders.for_rows(1) is default_decoder()


def test_many_rows_and_a_decoder_that_is_there_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kohort.client.decode.numba_decoder", raising=False)
    assert Decoders().for_rows(20_001) is default_decoder()
    monkeypatch.setitem(sys.modules, "kohort.client.decode.numba_decoder", plain_decoder)
    assert Decoders().for_rows(1) is default_decoder()
