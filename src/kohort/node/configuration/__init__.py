"""The settings of the broker, of topics and of groups.

`broker_settings` defines each with type, default and bounds; `config` has the values in force.
"""
