"""Pages: one module per page. Each reads through the functions of the library and lists its ROUTES."""
