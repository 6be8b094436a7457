"""Data-dependent decisions: hold-outs, choices between options, Newton's method, calibration."""
