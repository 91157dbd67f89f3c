"""Source: topics as DataFrames, batch and streaming."""
