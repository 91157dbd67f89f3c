"""Correlate: patterns over DataFrames."""
