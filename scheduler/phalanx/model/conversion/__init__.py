"""Conversion of API objects to the model, by pure functions that do not raise on invalid objects.

An error in an object becomes an Objection (or an entry of a shape's `invalid`) that names the field.
"""
