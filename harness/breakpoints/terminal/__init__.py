"""The debugger in the terminal: one prompt, several processes."""
