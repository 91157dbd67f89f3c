"""Sink: DataFrames become events or actions, exactly once."""
