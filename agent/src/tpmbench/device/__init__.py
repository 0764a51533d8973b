"""What a TPM can do, operation by operation: the ``device`` suite."""
