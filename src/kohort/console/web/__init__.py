"""The pages of the console: templates, routes, updates of open pages, and who may see them. Needs `kohort[console]`.

Starlette and Jinja are imported here only, and Uvicorn.
"""
