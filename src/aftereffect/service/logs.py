"""The log of the service: everything that anybody logs, each as one line of JSON on standard error."""

import json
import logging
import sys
import time


class JsonLines(logging.Formatter):
    """A line of JSON for each thing that is logged; there is never a token, a query or a body in it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, in ASCII: no control character and no line break of any kind is written as it is."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage().strip()}
        line |= getattr(record, "note", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr() -> None:
    """Have all of the process logged so: what the service and its server note, and the warnings of libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for name in ("aftereffect.service", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)
