"""How many times as long as on a real CPU things may take: whoever runs the tests under emulation says so."""

import os

PATIENCE = float(os.environ.get("SPARSENET_TEST_PATIENCE", "1"))
