//! Request lines and field lines.

use super::Maker;
use super::body::Coding;

impl Maker {
    pub(super) fn message(&mut self) {
        self.sound_or(
            &["", "", "", "", "", "\r\n"],
            &[b"\r\n\r\n", b"\r\n\r\n\r\n", b"\n", b"\r", b" ", b"\n\n", b"\r\n\n", b"\0", b"\t"],
        );
        let method = self.method();
        self.sound_or(&[" "], &[b"  ", b"\t", b"", b" \t", b"\x0b", b"\xa0", b"\x0c"]);
        self.target(method == b"OPTIONS");
        self.sound_or(&[" "], &[b"  ", b"\t", b"", b" \t", b"\x0c", b" x "]);
        self.version();
        self.line_end();
        let coding = self.fields();
        self.line_end();
        self.body(&coding);
    }

    fn method(&mut self) -> &'static [u8] {
        let method: &[u8] = if self.odd() {
            self.rng.pick(&[
                b"CONNECT".as_slice(),
                b"get",
                b"BREW",
                b"PRI",
                b"M-SEARCH",
                b"G@T",
                b"G\0T",
                b"",
                b"GET,",
                b"\"GET\"",
                b"G\x80T",
                b"!#$%&'*+-.^_`|~",
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG",
                b"(GET)",
                b"GET:",
                b" GET",
            ])
        } else {
            self.rng.pick(&[
                b"GET".as_slice(),
                b"GET",
                b"POST",
                b"POST",
                b"PUT",
                b"HEAD",
                b"DELETE",
                b"OPTIONS",
                b"PATCH",
            ])
        };
        self.put(method);
        method
    }

    fn target(&mut self, options: bool) {
        if options && self.rng.one_in(3) {
            return self.put("*");
        }
        self.sound_or(
            &["/", "/", "/a", "/a/b?x=1", "/%41%7e", "/a;b=c,d", "/?", "//", "/~_.-", "/a:b@c", "/x?a=/b?c"],
            &[
                b"http://h/",
                b"http://h",
                b"http://h?q",
                b"HTTP://H/x?y",
                b"https://h:8443/x",
                b"http://h:/",
                b"http://other/",
                b"http://u@h/",
                b"http://u:p@h/",
                b"http://",
                b"http:///x",
                b"http:/x",
                b"ftp://h/",
                b"h:80",
                b"h",
                b"*",
                b"*x",
                b"",
                b"?a",
                b"#",
                b"/a#b",
                b"/a b",
                b"/a\tb",
                b"/\0",
                b"/\x01",
                b"/\x7f",
                b"/\x80",
                b"/\xff",
                b"/\xc0\xaf",
                b"/\xc3\xa9",
                b"/%",
                b"/%zz",
                b"/%00",
                b"/%c0%af",
                b"/a/../b",
                b"/[x]",
                b"/{x}|^`\"<>\\",
                b"\\",
                b"/a\\b",
                b"/a?b#c",
                b"/a\r\nX: y",
                b"http://[::1]/",
                b"http://[::1",
                b"http://h\\x/",
                b"http://h,i/",
                b"http://h:99999/",
            ],
        );
    }

    fn version(&mut self) {
        self.sound_or(
            &["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"],
            &[
                b"HTTP/1.2",
                b"HTTP/1.9",
                b"HTTP/2.0",
                b"HTTP/0.9",
                b"HTTP/3.1",
                b"http/1.1",
                b"HTTP/1",
                b"HTTP/1.10",
                b"HTTP/01.1",
                b"HTTP/1.01",
                b"HTTP/ 1.1",
                b"HTTP/1.1 x",
                b"HTTP/1,1",
                b"HTTP/11",
                b"HTP/1.1",
                b"",
                b"HTTP/1.",
                b"HTTPS/1.1",
                b"HTTP/1.1\t",
                b"HTTP/-1.1",
                b"HTTP/1.x",
                b"HTTP/1.\xb1",
            ],
        );
    }

    fn fields(&mut self) -> Coding {
        let host_first = !self.rng.one_in(4);
        if host_first {
            self.host();
        }
        self.some_lines();
        let coding = self.framing();
        self.some_lines();
        if !host_first {
            self.host();
        }
        coding
    }

    fn host(&mut self) {
        if self.odd() && self.odd_host() {
            return;
        }
        self.name("Host");
        self.sound_or(
            &["h", "h", "h", "h", "h", "h", "H", "h:80", "h.example.", "10.0.0.1:8080", "[::1]", "a_b"],
            &[
                b"",
                b"h i",
                b"h/x",
                b"u@h",
                b"h,i",
                b"h, h",
                b"http://h",
                b"h:b",
                b"h:80:80",
                b"h:65536",
                b"h:999999",
                b":80",
                b"[::1",
                b"::1",
                b"[::1]x",
                b"h?x",
                b"h#x",
                b"h\\x",
                b"\"h\"",
                b"h%",
                b"h%4",
                b"h%zz",
                b"h%41",
                b"\xe9",
                b"<h>",
                b"[g::1]",
                b"[]",
                b"h\ti",
                b"h:",
                b"h;i",
                b"[::1%25lo]",
                b"[v1.x]",
                b"h\0",
                b"other",
                b"{h}",
                b"h:-1",
                b"h:+1",
                b"h|",
                b"h^",
            ],
        );
        self.line_end();
    }

    fn odd_host(&mut self) -> bool {
        let lines =
            self.rng.pick(&["", "Host: h\r\nHost: h\r\n", "Host: h\r\nhost: i\r\n", "Host:\r\n h\r\n"]);
        self.put(lines);
        true
    }

    /// Adds a field name with its colon and the white space after the colon.
    pub(super) fn name(&mut self, name: &str) {
        match self.rng.below(8) {
            0 => self.put(name.to_ascii_lowercase()),
            1 => self.put(name.to_ascii_uppercase()),
            _ => self.put(name),
        }
        self.sound_or(
            &[": ", ": ", ": ", ":", ":\t", ":  "],
            &[
                b" : ", b"\t: ", b"\0: ", b"", b" ", b"\x0b: ", b"\xa0: ", b";: ", b":\x0b", b":\r\n ",
                b"::", b": ,",
            ],
        );
    }

    fn some_lines(&mut self) {
        for _ in 0..self.rng.below(3) {
            self.some_line();
        }
        if self.odd() {
            self.odd_line();
        }
        if self.rng.one_in(3000) {
            self.put("X: y\r\n".repeat(120));
        }
    }

    fn some_line(&mut self) {
        match self.rng.below(7) {
            0 => {
                self.name("Connection");
                let options = &["close", "keep-alive", "x, close", "Keep-Alive", "upgrade", "closed", "x"];
                self.pick(options);
            }
            1 if self.rng.one_in(3) => {
                self.name("Expect");
                self.sound_or(
                    &["100-continue"],
                    &[b"", b"magic", b"100-Continue", b"100-continue, magic", b"100-continue;x", b"200-ok"],
                );
            }
            2 => {
                self.name("X-Name");
                self.sound_or(
                    &["", "y", "a\tb", "a:b", "\u{e9}", "\" \\ , ;", "y \t"],
                    &[
                        b"a\0b",
                        b"\x07",
                        b"a\x7f",
                        b"a\x0bb",
                        b"a\rb",
                        b"a\nb",
                        b"\x1b[0m",
                        b"\x80\xff",
                        b"a\r\n b",
                    ],
                );
            }
            3 => self.put("User-Agent: curl/8.9.1"),
            4 => self.put("Accept: */*"),
            5 => self.put("TE: trailers"),
            _ => self.put("Cookie: a=b; c=\"d\""),
        }
        self.line_end();
    }

    fn odd_line(&mut self) {
        let line: &[u8] = self.rng.pick(&[
            b" X: y\r\n".as_slice(),
            b": y\r\n",
            b"nocolon\r\n",
            b"X Y: z\r\n",
            b"X[]: y\r\n",
            b"X_Y: z\r\n",
            b"\xc3\xa9: x\r\n",
            b"(X): y\r\n",
            b"\"X\": y\r\n",
            b"X/Y: z\r\n",
            b"X\0: y\r\n",
            b"Transfer_Encoding: chunked\r\n",
            b"Content_Length: 5\r\n",
            b"Transfer-Encoding\x0b: chunked\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Content-Length\xa0: 5\r\n",
            b"Content-Length : 5\r\n",
            b"X: y\r\n z\r\n",
            b"X: y\n",
            b"\r\n",
            b"\n",
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
            b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
            b"Trailer: X\r\n",
            b"Content-Length: 0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: identity\r\n",
            b"Content-Length: 7\r\n",
            b"Proxy-Connection: close\r\n",
            b"Content-Encoding: gzip\r\n",
        ]);
        self.put(line);
    }
}
