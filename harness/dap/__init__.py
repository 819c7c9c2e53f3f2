"""A client of the Debug Adapter Protocol, for debugpy: attach, breakpoints, stacks, values, and a polite way out."""
