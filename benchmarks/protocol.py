"""How a worker answers the runner: a JSON object per line on standard input, each with an answer on standard output.

Output of what the worker calls goes to standard error. An error is answered with {"error": text},
after which the worker continues.
"""

import json
import os
import sys
import traceback
from typing import Any


def serve(worker: Any) -> None:
    """Answers each request {"do": METHOD, ARGUMENT: VALUE, ...} by that method of the worker."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = getattr(worker, request.pop("do"))(**request)
            except Exception:
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), file=answers, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)  # the runner receives the same Ctrl-C and reports it
