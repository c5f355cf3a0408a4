"""Data of the scheduler: frozen structs and pure functions of them. No I/O, no clock, no policy.

`api/` has the structs of API objects, `conversion/` turns them into the structs of this folder.
"""
