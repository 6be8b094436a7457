"""Factor for all time limits; raised for tests under emulation."""

import os

PATIENCE = float(os.environ.get("SPARSENET_TEST_PATIENCE", "1"))
