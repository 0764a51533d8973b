"""What a TPM-held key costs TLS, measured on one host."""

__version__ = "0.1.0"
