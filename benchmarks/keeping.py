"""What matching costs where the allocator keeps freed memory, as docs/performance.md advises for large batches."""

import json

from benchmarks.harness import Cases, Settings, child

ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
CODE = """
import json
from benchmarks.harness import Settings, measured
print(json.dumps(measured("matching", Settings({threads}, {runs}))))
"""


def run(settings: Settings) -> Cases:
    """The cases of `matching`, in a process that is started so."""
    code = CODE.format(threads=settings.threads, runs=settings.runs)
    cases: Cases = json.loads(child(code, settings, **ENVIRONMENT))
    return cases
