"""Languages: text → tree → compiled form. Pure: no database, no Spark."""
