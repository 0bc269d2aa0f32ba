"""The admin client: topics, settings, groups and their offsets. Descriptions of groups of both protocols."""
