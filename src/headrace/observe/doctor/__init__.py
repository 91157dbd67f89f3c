"""Doctor: checks a database and says what is wrong and what to do."""
