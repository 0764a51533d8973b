"""Documentation of the action plugin of the same name, which does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: write_json
short_description: Write a JSON document to a file on the control node
description:
  - The file is written whole or not at all, with mode 0644, and only if it would be another.
  - Runs no module and needs no connection to the host.
options:
  content:
    description: The document.
    type: dict
    required: true
  dest:
    description: The file. Its directory exists.
    type: path
    required: true
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Mark the host as done
  write_json:
    content: {host: "{{ inventory_hostname }}"}
    dest: "results/{{ inventory_hostname }}.done.json"
"""

RETURN = r"""
dest:
  description: The file.
  type: str
  returned: always
"""
