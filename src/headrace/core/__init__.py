"""Core: values, errors and limits that every room shares. Imports nothing of ours."""
