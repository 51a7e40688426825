"""What only root can try; the others' runs say so."""

import os

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
