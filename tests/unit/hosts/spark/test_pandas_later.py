"""Arrow does not import pandas in a worker, and knows it once somebody else does."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # pandas takes more than a second

_BEGIN = """
import sys
import pyarrow as pa
from headrace.hosts.spark.pandas_later import import_pandas_later
import_pandas_later()
import_pandas_later()
rows = pa.RecordBatch.from_pylist([{"a": 1, "b": b"x"}, {"a": None, "b": None}])
assert rows.to_pylist() == [{"a": 1, "b": b"x"}, {"a": None, "b": None}]
assert "pandas" not in sys.modules
"""
_USES = {
    "an import": "import pandas as pd; assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1",
    "an import of a part": "from pandas import Series; assert pa.array(Series([1.0, float('nan')])).null_count == 1",
    "Arrow itself": "assert rows.to_pandas().shape == (2, 2)",
    "an import and Arrow": "import pandas as pd; assert pa.table(pd.DataFrame({'a': [1]})).to_pandas().a[0] == 1",
}


@pytest.mark.parametrize("use", _USES.values(), ids=list(_USES))
def test_pandas_is_there_for_who_uses_it(use):
    done = subprocess.run([sys.executable, "-c", _BEGIN + use], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_missing_pandas_is_missing():
    hidden = "class Hidden:\n def find_spec(self, name, path=None, target=None):\n"
    hidden += "  if name == 'pandas': raise ModuleNotFoundError(name=name)\n"
    use = "try:\n import pandas\nexcept ModuleNotFoundError: pass\nelse: raise AssertionError"
    text = f"import sys\n{hidden}sys.meta_path.insert(0, Hidden())\n{_BEGIN}{use}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
