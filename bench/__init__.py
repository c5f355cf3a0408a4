"""Benchmarks that are run by hand; figures are committed under results/ and compared only within one run."""
