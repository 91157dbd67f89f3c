"""Chunks: one long stream without a key, stepped in parallel."""
