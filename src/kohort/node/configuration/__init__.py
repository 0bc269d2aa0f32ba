"""The settings of the broker, of topics and of groups: their table, their checks and the values in force."""
