"""Post-quantum commands of TPM 2.0 v1.85, which no TSS carries yet."""
