"""The flights of the demo: every row, typed, and added up without a rounding error."""

from __future__ import annotations

import json

from demo.flights import Group, add_up, encode, read_flights


def test_flights_come_in_the_order_of_the_file_with_their_row_numbers():
    first, second = read_flights(2)
    assert [first["id"], second["id"]] == [0, 1]
    assert (first["tailnum"], first["dep_delay"], first["time_hour"]) == ("N14228", 2, "2013-01-01T10:00:00Z")


def test_a_cancelled_flight_has_none_where_the_file_says_na():
    cancelled = next(flight for flight in read_flights(2000) if flight["dep_time"] is None)
    assert (cancelled["dep_delay"], cancelled["arr_delay"], cancelled["origin"]) == (None, None, "EWR")


def test_a_record_is_keyed_by_tail_number_and_holds_the_whole_flight():
    flight = next(read_flights(1))
    key, value = encode(flight)
    assert key == b"N14228"
    assert json.loads(value) == flight
    assert encode(flight | {"tailnum": None})[0] is None


def test_totals_add_up_delays_and_leave_cancelled_flights_out_of_them():
    def flight(departure, arrival):
        return {
            "origin": "JFK", "carrier": "B6", "month": 1,
            "dep_time": None if departure is None else 700, "dep_delay": departure, "arr_delay": arrival,
        }  # fmt: skip

    totals = add_up([flight(-3, 10), flight(5, None), flight(None, None)])[Group("JFK", "B6", 1)]
    assert (totals.flights, totals.cancelled) == (3, 1)
    assert (totals.departed, totals.departure_delay_min, totals.arrived, totals.arrival_delay_min) == (2, 2, 1, 10)
