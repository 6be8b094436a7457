"""Decisions that the data take: hold-outs, choices between options, calibration."""
