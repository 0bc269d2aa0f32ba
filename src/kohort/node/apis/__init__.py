"""The APIs that the broker serves, by key: the numbers in a module's name are its APIs, so `ls` is the list of them.

Each API has a function of its name, `join_group(context, request, message)`, which returns the response or None
(parked: `request.reply` comes later). `refuse_join_group(message, code, text, version)` returns an error response,
where `node.route.error_response` does not suffice.
"""
