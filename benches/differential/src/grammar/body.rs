//! Framing fields and bodies that usually match the fields.

use super::Maker;

/// The coding that the framing fields announce.
pub(super) enum Coding {
    Chunked,
    Length(usize),
    None,
}

impl Maker {
    pub(super) fn framing(&mut self) -> Coding {
        match self.rng.below(12) {
            0..4 => Coding::None,
            4..7 => {
                let len = self.body_len();
                self.length_line(len);
                Coding::Length(len)
            }
            7..11 => {
                self.coding_line();
                Coding::Chunked
            }
            _ => self.odd_framing(),
        }
    }

    fn odd_framing(&mut self) -> Coding {
        if !self.rng.one_in(3) {
            return Coding::None;
        }
        let len = self.body_len();
        match self.rng.below(6) {
            0 => {
                self.length_line(len);
                self.coding_line();
                Coding::Chunked
            }
            1 => {
                self.coding_line();
                self.length_line(len);
                Coding::Length(len)
            }
            2 => {
                self.length_line(len);
                self.length_line(len);
                Coding::Length(len)
            }
            3 => {
                self.length_line(len);
                self.length_line(len + 1);
                Coding::Length(len)
            }
            4 => {
                self.coding_line();
                self.coding_line();
                Coding::Chunked
            }
            _ => {
                self.put("Transfer-Encoding: ");
                self.pick(&["gzip", "identity", "x"]);
                self.put("\r\nTransfer-Encoding: chunked\r\n");
                Coding::Chunked
            }
        }
    }

    fn body_len(&mut self) -> usize {
        [0, 1, 5, 5, 19, 40][self.rng.below(6)]
    }

    fn length_line(&mut self, len: usize) {
        self.name("Content-Length");
        if self.odd() {
            let odd = match self.rng.below(20) {
                0 => format!("+{len}"),
                1 => format!("-{len}"),
                2 => format!("0{len}"),
                3 => format!("{len},{len}"),
                4 => format!("{len}, {}", len + 1),
                5 => format!("{len} {len}"),
                6 => format!("0x{len:x}"),
                7 => format!("{len};"),
                8 => format!("{len}.0"),
                9 => format!("{len}\u{b}"),
                10 => format!("\u{b}{len}"),
                11 => format!("{len}_0"),
                12 => format!("{len}e0"),
                13 => format!("'{len}'"),
                14 => String::new(),
                15 => "9223372036854775807".to_owned(),
                16 => "18446744073709551616".to_owned(),
                17 => format!("{len}\t "),
                18 => format!(",{len}"),
                _ => "100000".to_owned(),
            };
            self.put(odd);
        } else {
            self.put(len.to_string());
        }
        self.line_end();
    }

    fn coding_line(&mut self) {
        self.name("Transfer-Encoding");
        self.sound_or(
            &["chunked", "chunked", "chunked", "chunked", "Chunked", "CHUNKED", "chunked \t"],
            &[
                b"xchunked",
                b"chunkedx",
                b"gzip",
                b"identity",
                b"",
                b"chunked, chunked",
                b"gzip, chunked",
                b"chunked, gzip",
                b"chunked, identity",
                b"identity, chunked",
                b"chunked;q=1",
                b"chunked ;q=1",
                b",chunked",
                b"chunked,",
                b", chunked",
                b"\x0bchunked",
                b"chunked\x0b",
                b"\"chunked\"",
                b"chunked chunked",
                b"chun\r\n ked",
                b"\xa0chunked",
                b"chunked\0",
                b"chunked\x0c",
                b"'chunked'",
                b"\r\n chunked",
                b"chunked\r\n ",
            ],
        );
        self.line_end();
    }

    pub(super) fn body(&mut self, coding: &Coding) {
        match *coding {
            Coding::None if self.odd() => self.put("hello"),
            Coding::None => {}
            Coding::Length(len) => {
                let len = if self.odd() { self.rng.below(len + 20) } else { len };
                self.content(len);
            }
            Coding::Chunked => self.chunks(),
        }
    }

    /// Content of this length, which often resembles other syntax.
    fn content(&mut self, len: usize) {
        let text: &[u8] = self.rng.pick(&[
            b"abcdefghijklmnopqrstuvwxyz".as_slice(),
            b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n",
            b"0\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\r\n\r\n\0\xff",
            b"5\r\nhello\r\n",
        ]);
        let start = self.bytes.len();
        while self.bytes.len() < start + len {
            self.put(text);
        }
        self.bytes.truncate(start + len);
    }

    fn chunks(&mut self) {
        for _ in 0..self.rng.below(4) {
            let len = 1 + self.rng.below(20);
            self.chunk_size(len);
            self.chunk_line_end();
            let len = if self.odd() { self.rng.below(len + 3) } else { len };
            self.content(len);
            self.sound_or(&["\r\n"], &[b"", b"\n", b"\r", b"\r\r\n", b" \r\n", b"xx", b"\n\r", b"\r\n\r\n"]);
        }
        self.sound_or(
            &["0", "0", "0", "00", "000"],
            &[b"", b"0x0", b" 0", b"0 ", b"-0", b"0;x", b"0;", b"1", b"0_"],
        );
        self.chunk_line_end();
        if self.rng.one_in(4) {
            self.sound_or(
                &[
                    "X: y\r\n",
                    "X:\r\nY: z\r\n",
                    "Content-Length: 9\r\n",
                    "Transfer-Encoding: chunked\r\n",
                    "Host: i\r\n",
                ],
                &[
                    b"X\r\n",
                    b" X: y\r\n",
                    b"X: y\n",
                    b"X : y\r\n",
                    b": y\r\n",
                    b"X: y\r\n z\r\n",
                    b"X: \0\r\n",
                    b"X: a\rb\r\n",
                    b"\xff: y\r\n",
                    b"\n",
                    b"X: y\r",
                    b"GET / HTTP/1.1\r\nHost: h\r\n",
                    b"X:\x7f\r\n",
                ],
            );
        }
        self.line_end();
    }

    fn chunk_size(&mut self, len: usize) {
        if self.odd() {
            let odd = match self.rng.below(16) {
                0 => format!("0x{len:x}"),
                1 => format!("+{len:x}"),
                2 => format!("-{len:x}"),
                3 => format!(" {len:x}"),
                4 => format!("{len:x} "),
                5 => format!("{len:x}\t"),
                6 => format!("{len:x}_"),
                7 => format!("_{len:x}"),
                8 => String::new(),
                9 => format!("1000000000000000{len:x}"),
                10 => format!("0000000000000000{len:x}"),
                11 => format!("{len:x}\u{b}"),
                12 => format!("{len:x},"),
                13 => format!("{len:x}."),
                14 => format!("{len:x}h"),
                _ => format!("{len:x}\0"),
            };
            return self.put(odd);
        }
        match self.rng.below(4) {
            0 => self.put(format!("{len:X}")),
            1 => self.put(format!("0{len:x}")),
            _ => self.put(format!("{len:x}")),
        }
    }

    fn chunk_line_end(&mut self) {
        if self.rng.one_in(5) {
            self.sound_or(
                &[";a", ";a=b", ";a=\"b c\"", ";a=\"\\\"\"", ";a;b=c", ";a=\"\"", ";!#$=%&'"],
                &[
                    b";",
                    b"; ",
                    b" ;a",
                    b"\t;a",
                    b";a =b",
                    b";a= b",
                    b"; a",
                    b";a=",
                    b";=b",
                    b";;",
                    b";a;",
                    b";[",
                    b";a=[",
                    b";a\0",
                    b";a\x01",
                    b";a\n",
                    b";a=\"b\n\"",
                    b";a=\"b",
                    b";a=\"b\"c",
                    b";\xff",
                    b";a\rb",
                    b";a=b ",
                    b";a=\"\x7f\"",
                    b";a=\"\\\n\"",
                    b";a=\"\r\n\"",
                ],
            );
        }
        self.line_end();
    }
}
