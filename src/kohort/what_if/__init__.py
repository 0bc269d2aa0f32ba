"""What a change would do to a group: facts in, a forecast out. No sockets, no clock, nothing written anywhere."""
