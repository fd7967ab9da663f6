import pytest

pytestmark = pytest.mark.heavy
