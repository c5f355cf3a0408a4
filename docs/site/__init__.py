"""Builds the documentation site: pages from code and CRDs, and links to files outside of docs/."""
