"""The control node's part: reads result documents and renders the report."""
