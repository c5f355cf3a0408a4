"""From wire structs to the model: each kind is read by pure functions that never raise on a hostile object.

What makes no sense in an object becomes a Problem (or an entry of a shape's `invalid`), with the field named.
"""
