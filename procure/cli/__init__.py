"""The command line: one module per noun; a body reads tables, calls one function, writes tables."""
