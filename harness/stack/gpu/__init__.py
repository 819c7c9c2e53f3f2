"""GPUs: what the machine has (``machine``), who gets which (``split``), and an engine's flags (``fit``)."""
