"""Signing and verifying by message size: the ``messages`` suite."""
