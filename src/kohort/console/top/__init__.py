"""The screen of `kohort top`: what the console shows of groups, in a terminal.

`group_lines` is text and needs no package; `top_app` needs the extra `top`.
"""
