#!/usr/bin/env python3
"""Serves the part of ClickHouse's HTTP interface that doorbell uses, with a current engine.

    clickhouse.py --config-file=FILE

FILE is a configuration of clickhouse-server: its address, port, path and users are used. The module
chdb contains the engine without the server, so requests, status codes and logins are implemented
here. Requests are served one at a time.
"""
import http.server
import pathlib
import re
import sys
import urllib.parse
import xml.etree.ElementTree as xml

from chdb.session import Session

# Status codes of the server for frequent errors, by name. Others are 500.
STATUSES = {
    "AUTHENTICATION_FAILED": 403,
    "BAD_ARGUMENTS|CANNOT_PARSE_.*|INCORRECT_DATA|SYNTAX_ERROR|TYPE_MISMATCH": 400,
    "UNKNOWN_(DATABASE|FORMAT|FUNCTION|IDENTIFIER|SETTING|STORAGE|TABLE|TYPE)": 404,
}
DENIED = "Code: 516. DB::Exception: Unknown user or bad password. (AUTHENTICATION_FAILED)"
# The engine reads the rows of an insert from this file.
ROWS = pathlib.Path("rows").absolute()

config = xml.parse(sys.argv[1].removeprefix("--config-file="))
users = xml.parse(config.findtext("users_config")).find("users")
passwords = {user.tag: user.findtext("password") for user in users}
session = Session(config.findtext("path"))


class Interface(http.server.BaseHTTPRequestHandler):
    # Maximum time of a read. One client must not block the others.
    timeout = 10

    def do_POST(self):
        # As the server, reply in the version of the request.
        self.protocol_version = self.request_version
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/ping":
            return self.reply(200, b"Ok.\n")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self.login()
            self.reply(200, run(dict(urllib.parse.parse_qsl(url.query)), body))
        except RuntimeError as error:
            code, name = re.match(r"Code: (\d+).*\((\w+)\)$", str(error), re.DOTALL).groups()
            status = next((STATUSES[names] for names in STATUSES if re.fullmatch(names, name)), 500)
            self.reply(status, f"{error}\n".encode(), ("X-ClickHouse-Exception-Code", code))

    do_GET = do_POST

    def login(self):
        user = self.headers.get("X-ClickHouse-User", "default")
        password = self.headers.get("X-ClickHouse-Key", "")
        # Header fields are in UTF-8, and were decoded as Latin-1.
        if passwords.get(user) != password.encode("latin-1").decode():
            raise RuntimeError(DENIED)

    def reply(self, status, body, *headers):
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), ("Connection", "close"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def run(options, body):
    """Runs the query of the URL, with the rows of an insert in the body, or that of the body."""
    query = options.get("query") or body.decode()
    if insert := re.fullmatch(r"(INSERT INTO .*) (FORMAT \w+)\s*", query, re.DOTALL):
        ROWS.write_bytes(body)
        query = f"{insert[1]} FROM INFILE '{ROWS}' {insert[2]}"
    return session.query(query, options.get("default_format", "TabSeparated")).bytes()


address = config.findtext("listen_host"), int(config.findtext("http_port"))
http.server.HTTPServer(address, Interface).serve_forever()
