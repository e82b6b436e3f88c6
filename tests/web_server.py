"""An HTTP server on this machine that serves one file, well or badly."""

import contextlib
import http.server
import re
import threading


class Site:
    """What the server does, and what it was asked for.

    Attributes:
      body: the bytes of the only file, or a dict of path to bytes.
      ranges: whether the server takes Range requests.
      cut_after: how many bytes of a response to send before the connection is closed, for each of
        the next responses in turn.
      statuses: errors to answer with, for each of the next requests in turn.
      redirect: the address to send every request to, or None.
      requests: pairs of path and Range header, as they came.
      lengths: what responses say how long they are: a function of the number of bytes, or None.
    """

    def __init__(self, body):
        self.body = body
        self.ranges = True
        self.cut_after = []
        self.statuses = []
        self.redirect = None
        self.requests = []
        self.lengths = str
        self.url = None


def _handler(site):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            wanted = self.headers.get("Range")
            site.requests.append((self.path, wanted))
            if site.statuses:
                self.send_error(site.statuses.pop(0))
                return
            if site.redirect:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.end_headers()
                return
            body = site.body
            if isinstance(body, dict):
                if self.path not in body:
                    self.send_error(404)
                    return
                body = body[self.path]
            self._answer(body, wanted)

        def _answer(self, body, wanted):
            start = int(re.match(r"bytes=(\d+)-", wanted)[1]) if wanted and site.ranges else 0
            if start and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if site.lengths:
                self.send_header("Content-Length", site.lengths(len(body) - start))
            self.end_headers()
            count = site.cut_after.pop(0) if site.cut_after else len(body)
            self.wfile.write(body[start : start + count])

    return Handler


@contextlib.contextmanager
def serve(body):
    """Serves a body; gives its `Site`, whose url has no slash at the end."""
    site = Site(body)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
